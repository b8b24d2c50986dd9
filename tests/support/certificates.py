"""Certificates that a test makes with openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

OPENSSL = shutil.which("openssl")
NEEDS_OPENSSL = pytest.mark.skipif(
    OPENSSL is None, reason="openssl is not installed (Debian: apt-get install openssl)"
)


def openssl(folder: Path, *arguments: str) -> None:
    """Run openssl in a folder."""
    assert OPENSSL is not None
    done = subprocess.run(
        [OPENSSL, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def make_authority(folder: Path) -> None:
    """Write ca.key and ca.pem, which sign the folder's certificates."""
    openssl(
        folder,
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem"),
        *("-days", "1", "-subj", "/CN=ca", "-addext", "basicConstraints=critical,CA:TRUE"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # Python 3.13 demands it
    )


def make_certificate(folder: Path, name: str, host: str, *key_options: str, days: int = 1) -> None:
    """Write NAME.key and NAME.pem, signed by the folder's CA, for a host: a name, or an IPv4 address.

    It is valid for so many days from now on; below 0 it has expired.
    """
    subject = ("-subj", f"/CN={name}")
    openssl(
        folder,
        *("req", "-newkey", "rsa:2048", "-keyout", f"{name}.key", "-out", f"{name}.csr"),
        *(*subject, *(key_options or ("-nodes",))),
    )
    kind = "IP" if host.replace(".", "").isdigit() else "DNS"
    (folder / f"{name}.ext").write_text(
        f"subjectAltName={kind}:{host}\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
    )
    openssl(
        folder,
        *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-out", f"{name}.pem", "-days", str(days), "-extfile", f"{name}.ext"),
    )
