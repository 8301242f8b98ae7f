"""What strategies and limits share, bundled or of a third party: windows, calendars, node tables and scores. Pure."""
