"""Runs the watcher alone (`python -m zk_source`), with settings from the environment and a file."""

from pipeline.part import main_of_part
from pipeline.runtime import run_program
from zk_source.config import WatchSettings
from zk_source.service.service import run

if __name__ == "__main__":
    run_program(lambda: main_of_part("watch", WatchSettings, run))
