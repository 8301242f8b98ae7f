"""The running daemon: the loop over workloads, the policies that govern them, worker threads, and actions."""
