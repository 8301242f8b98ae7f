"""What a decision about a workload is made of, in the order of the questions; pure."""
