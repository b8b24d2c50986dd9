"""`python -m exporter`: the exporter alone, with settings from the environment and a file."""

from exporter.core.config import ExportSettings
from exporter.serve.service import run
from pipeline.part import main_of_part
from pipeline.runtime import run_program

if __name__ == "__main__":
    run_program(lambda: main_of_part("export", ExportSettings, run))
