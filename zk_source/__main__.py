"""Runs the watcher alone (`python -m zk_source`), with settings from the environment and a file."""

import sys

from pipeline.part import main_of_part
from zk_source.config import WatchSettings
from zk_source.service.service import run

if __name__ == "__main__":
    sys.exit(main_of_part("watch", WatchSettings, run))
