"""What a decision about one workload is made of, in the order of the questions. Pure."""
