"""Runs the fold alone (`python -m streaming`), with settings from the environment and a file."""

from pipeline.part import main_of_part
from pipeline.runtime import run_program
from streaming.config import StreamSettings
from streaming.service import run

if __name__ == "__main__":
    run_program(lambda: main_of_part("stream", StreamSettings, run))
