"""What commands print, and where they ask for it: the journal, and the daemon that runs."""
