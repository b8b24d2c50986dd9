"""The watched ensemble: its sessions, one client after the other, and the health of its servers."""
