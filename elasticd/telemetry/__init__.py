"""How the daemon tells of itself: metrics, pages, systemd, MQTT, and the log."""
