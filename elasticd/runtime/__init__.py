"""The daemon at work: the loop over workloads, who governs them, the threads that judge, and what is carried out."""
