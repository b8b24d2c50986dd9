"""Runs the watcher of a KRaft cluster alone (`python -m kraft_source`), with settings from the environment and a file."""

from kraft_source.config import KraftSettings
from kraft_source.service.service import run
from pipeline.part import main_of_part
from pipeline.runtime import run_program

if __name__ == "__main__":
    run_program(lambda: main_of_part("watch", KraftSettings, run))
