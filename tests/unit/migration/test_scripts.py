"""Shell scripts with templates: what `migrate` makes of them prints what the script with the values in it did."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml

from noetl.kinds.registry import default_registry
from noetl.migration.migrate import migrate_text
from tests.waiting import PATIENCE

BASH = shutil.which("bash") or ""
VALUES = {"n": "3", "a": "x  y", "name": "joe", "region": "eu"}
PLAYBOOK = """\
apiVersion: noetl.io/v1
kind: Playbook
metadata: {{ name: t, path: t/t }}
workload: {{ n: "3", a: "x  y", name: joe, region: eu }}
workflow:
  - step: start
    tool:
      kind: shell
      command: |
{script}
    next: [{{ step: end }}]
  - {{ step: end }}
"""
SCRIPTS = [
    "printf -v N '%s' 5; echo '{{ n }}'",
    "printf -vN '%s' 5; echo '{{ n }}'",
    'echo 7 > f; read -p "a; b" N < f; echo "{{ n }}"',
    "mapfile -t -d ';' N <<< '1;2'; echo \"{{ n }}\"",
    'readarray N < /dev/null; echo "{{ n }}"',
    "set -- -a; getopts 'a;b' N; echo \"{{ n }}\"",
    'for N in 1 2; do echo "$N"; done; echo "{{ n }}"',
    'for N\nin 1 2; do :; done; echo "{{ n }}"',
    'exec {N}>/dev/null; echo "{{ n }}"',
    'coproc N { cat; }; echo "{{ n }}"',
    'eval "N=5"; echo "$N {{ n }}"',
    'true&&N=5; echo "$N {{ n }}"',
    'let N=5; echo "{{ n }}"',
    'NAME="{{ name }}"; echo "$NAME"',
    "cat <<END\n\\{{ n }}\nEND",
    "cat <<END\n\\\\{{ n }} \\\\\\{{ n }} \\{{ n }}x \\a\nEND",
    'cat <<END\n$(echo "{{ a }}")\nEND',
    "cat <<END\nit's $(echo 1) {{ n }}\nEND",
    "cat <<END\nit's `echo 1` {{ n }}\nEND",
    'cat <<EOF-1\n"{{ n }}"\nEOF-1',
    'cat <<!\n"{{ n }}"\n!',
    'cat << "END OF"\nit\'s\nEND OF\necho "{{ a }}"',
    'echo $((1<<2)) "{{ n }}"',
    'echo "\\{{ n }}"',
    "echo \\{{ name }}",
    'echo "a\\\\{{ n }}"',
    "echo '\\{{ n }}'",
    'echo "cost: \\${{ n }}"',
    "echo 'cost: ${{ n }}'",
    'echo "`echo "{{ a }}"`"',
    "echo \"`echo '{{ a }}'` {{ a }}\"",
    'echo "$(echo "$(echo "{{ a }}")")"',
    'x=$(case a in a) echo "{{ a }}";; esac); echo "$x"',
    "echo $'a\\'{{ n }}b\\t{{ name }}'",
]


def printed(script: str, variables: dict[str, str], folder: Path) -> str:
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables}
    ran = subprocess.run(
        [BASH, "-c", script],
        capture_output=True,
        text=True,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )
    return ran.stdout


def filled(text: str) -> str:
    for name, value in VALUES.items():
        text = text.replace(f"{{{{ {name} }}}}", value)
    return text


@pytest.mark.skipif(not BASH, reason="there is no bash")
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_prints_what_it_printed(script: str, tmp_path: Path) -> None:
    text = PLAYBOOK.format(script=textwrap.indent(script, " " * 8))
    made = migrate_text(text, source_name="t.yaml", kinds=default_registry())
    assert made.runs
    tool = yaml.safe_load(made.text)["workflow"][0]["tool"]
    assert "{{" not in tool["command"]
    variables = {name: filled(value) for name, value in tool["env"].items()}
    assert printed(tool["command"], variables, tmp_path / "now") == printed(
        filled(script) + "\n", {}, tmp_path / "then"
    )
