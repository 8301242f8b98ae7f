"""Where numbers come from: one module or folder for each source, and who reads them when."""
