#!/usr/bin/env python3
"""Docker's command line as far as the kind ``container`` needs it: containers are processes of this machine, images files of a folder."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HOME = pathlib.Path(os.environ["FAKE_DOCKER"])
IMAGES, CONTAINERS = HOME / "images", HOME / "containers"


def fail(message: str, code: int = 1) -> None:
    print(f"Error: {message}", file=sys.stderr)
    raise SystemExit(code)


def folder(name: str) -> pathlib.Path:
    found = CONTAINERS / name
    if not found.is_dir():
        fail(f"No such container: {name}")
    return found


def state(found: pathlib.Path) -> dict:
    if (found / "error").exists():
        return {"Status": "created", "ExitCode": 127, "Error": (found / "error").read_text()}
    if (found / "code").exists():
        code = int((found / "code").read_text() or 0)
        return {"Status": "exited", "ExitCode": code, "OOMKilled": code == 137, "Error": ""}
    return {"Status": "running", "ExitCode": 0, "OOMKilled": False, "Error": ""}


def options(words: list) -> tuple:
    found, flags = {"env": [], "label": []}, {"--detach"}
    while words and words[0].startswith("--"):
        word = words.pop(0)
        if word in flags:
            continue
        value = words.pop(0)
        name = word[2:]
        found[name] = [*found[name], value] if name in ("env", "label") else value
    return found, words


def run(words: list) -> None:
    about, words = options(words)
    image, *command = words
    found = CONTAINERS / about["name"]
    if found.exists():
        fail(f'Conflict. The container name "/{about["name"]}" is already in use', 125)
    if not (IMAGES / image.replace("/", "_")).exists():
        fail(f"Unable to find image {image!r} locally", 125)
    found.mkdir(parents=True)
    (found / "about.new").write_text(json.dumps({**about, "argv": sys.argv}))
    (found / "about.new").rename(found / "about.json")
    if command and command[0] == "missing":
        (found / "error").write_text('exec: "missing": executable file not found in $PATH')
        fail("executable file not found in $PATH", 127)
    env = {name: os.environ[name] for name in about["env"]} | {"PATH": os.environ["PATH"]}
    (found / "env.json").write_text(json.dumps(env))
    keeper = (
        "import pathlib, subprocess, sys; here = pathlib.Path(sys.argv[1]); log = open(here / 'log', 'wb');"
        "child = subprocess.Popen(sys.argv[2:], stdout=log, stderr=subprocess.STDOUT);"
        "(here / 'new').write_text(str(child.pid)); (here / 'new').rename(here / 'pid'); code = child.wait();"
        "(here / 'new').write_text(str(code if code >= 0 else 128 - code)); (here / 'new').rename(here / 'code')"
    )
    subprocess.Popen(
        [sys.executable, "-SEc", keeper, str(found), *command],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    print(about["name"])


def stop(words: list) -> None:
    _, words = options(words)
    found = folder(words[0])
    while not (found / "code").exists() and not (found / "error").exists():
        if (found / "pid").exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((found / "pid").read_text()), signal.SIGTERM)
        time.sleep(0.02)


def main() -> None:
    command, *words = sys.argv[1:]
    with (HOME / "calls").open("a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\n")
    if (HOME / "away").exists():
        fail("Cannot connect to the Docker daemon")
    if command == "run":
        run(words)
    elif command == "image":
        if not (IMAGES / words[-1].replace("/", "_")).exists():
            fail(f"No such image: {words[-1]}")
    elif command == "pull":
        time.sleep(0.1)
        if "nowhere" in words[-1]:
            fail(f"manifest for {words[-1]} not found: manifest unknown")
        (IMAGES / words[-1].replace("/", "_")).touch()
    elif command == "inspect":
        print(json.dumps(state(folder(words[-1]))))
    elif command == "logs":
        sys.stdout.write((folder(words[-1]) / "log").read_text())
    elif command == "stop":
        stop(words)
    elif command == "rm":
        found = folder(words[-1])
        found.rename(HOME / f"removed-{found.name}")
    elif command == "ps":
        for found in CONTAINERS.iterdir():
            with contextlib.suppress(FileNotFoundError):  # It is being made, or was removed meanwhile.
                about = json.loads((found / "about.json").read_text())
                if state(found)["Status"] == "running":
                    print(found.name, about["label"][0].partition("=")[2])
    elif command != "container":
        fail(f"unknown command {command}")


main()
