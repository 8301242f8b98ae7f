"""What the daemon reports of itself: metrics, web pages, systemd, MQTT, and the log."""
