"""The images and the compose file, built and run by podman: `python -m tests.images`."""
