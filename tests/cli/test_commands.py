"""Commands as a user meets them: help, tables, JSON, exit codes."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import pytest

from mixtailor.cli import _app, _output, _training, main
from mixtailor.experiments import WorstCase
from mixtailor.mixing import AuditTrail
from mixtailor.mixing.registry import own_rules


@pytest.mark.parametrize("name", _app.COMMANDS)
def test_help_ends_with_an_example(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([name, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.endswith(f"Example: {_app.COMMANDS[name].EXAMPLE}")
    assert _app.COMMANDS[name].EXAMPLE.startswith(f"mixtailor {name}")


@pytest.mark.parametrize("width", ["80", "120"])
def test_tables_fit_the_terminal(width, capsys, monkeypatch):
    """No line of a table is wider than the terminal, and every rule's name is whole."""
    monkeypatch.setenv("COLUMNS", width)
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    tables = [line for line in lines if not line.startswith("kappa:")]
    assert max(map(len, tables)) <= int(width)
    assert set(own_rules()) <= {line.split()[0] for line in tables if line.split()}


@pytest.mark.parametrize("width", [72, 80, 200])
def test_a_table_that_does_not_fit_is_printed_in_parts(width, monkeypatch, capsys):
    """No name and no number loses its end, and the worst case is in each part."""
    monkeypatch.setenv("COLUMNS", str(width))
    attacks = ["tailored", "mine.py:Opposite", "ten times", "package.module:Other", "ALIE 1.5"]
    names = ["rule", *attacks, "worst", "95 %"]
    cells = ["nnm >> mine.py:Nearest(p=3)", "44.1", "43.5", "45.5", "12.3", "41.8", "12.3", "10.8–13.3"]
    for part in _output.spread(names, [cells], ends=2, right=names[1:], title="own"):
        _output.console().print(part)
    text = capsys.readouterr().out
    lines = text.splitlines()
    parts = text.count("own")
    assert max(map(len, lines)) <= width and "…" not in text
    assert (parts == 1) == (width == 200)
    assert text.count(cells[0]) == text.count("10.8–13.3") == parts
    for name in [part for attack in attacks for part in attack.replace(":", ": ").split()]:
        assert name in text
    for number in set(cells[1:6]) - {"12.3"}:
        assert text.count(number) == 1


def test_one_seed_has_no_interval():
    """The bootstrap of one seed would say 84.4 to 84.4, as if the number were certain."""
    case = WorstCase("krum", "alie", 84.4, 84.4, 84.4, 1)
    assert _training.interval(case) == ""
    assert _training.interval(dataclasses.replace(case, low=80.0, high=90.0, seeds=3)) == "80.0–90.0"


def test_rules_as_json(capsys):
    assert main(["rules", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    krum = next(rule for rule in found["rules"] if rule["name"] == "krum")
    assert krum["requirement"] == "n >= 2f + 3" and krum["coefficient"] == "6(1 + f/(n - 2f))"
    assert "Blanchard" in krum["reference"]
    assert {front["name"] for front in found["preaggregations"]} >= {"nnm", "bucketing"}


def test_attacks_as_json(capsys):
    assert main(["attacks", "--json"]) == 0
    found = {attack["name"]: attack for attack in json.loads(capsys.readouterr().out)["attacks"]}
    assert found["tailored"]["needs"] == "the honest updates" and found["tailored"]["alone"] is False


def test_version(capsys):
    import mixtailor

    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mixtailor"] == mixtailor.__version__


def test_version_and_help_in_short(capsys):
    import mixtailor

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mixtailor {mixtailor.__version__}\n"
    assert main(["-h"]) == 0 and "aggregate" in capsys.readouterr().out
    assert main(["run", "-h"]) == 0


def test_brackets_in_help_are_brackets(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["run", "--help"]) == 0
    assert "mixtailor[trackers]" in capsys.readouterr().out


def test_flags_show_no_type():
    """Typer 0.29 prints <bool> beside a flag that has no metavar of its own, --help included."""
    program = _app._program()
    for command in (program, *program.commands.values()):
        flags = [parameter for parameter in command.params if getattr(parameter, "is_flag", False)]
        assert {flag.metavar for flag in (*flags, command._help_option)} == {""}, command.name


@pytest.mark.parametrize("name", ["", *_app.COMMANDS])
def test_help_loads_nothing_heavy(name):
    """Help is there in a fraction of a second, since neither numpy nor numba nor torch is loaded for it."""
    code = (
        "import sys; from mixtailor.cli import main\n"
        f"main([*{name.split()!r}, '--help'])\n"
        "print([name for name in ('numpy', 'numba', 'scipy', 'torch', 'pydantic') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout.endswith("[]\n"), run.stdout[-200:] + run.stderr


def test_shells_complete_commands():
    """What a shell asks the program when somebody presses tab."""
    asked = {**os.environ, "_MIXTAILOR_COMPLETE": "complete_bash", "COMP_WORDS": "mixtailor repo", "COMP_CWORD": "1"}
    run = subprocess.run([sys.executable, "-m", "mixtailor"], capture_output=True, text=True, env=asked, timeout=120)
    assert run.stdout.split() == ["report"], run.stdout + run.stderr


def test_registered_attacks_are_listed(capsys, monkeypatch):
    from importlib.metadata import EntryPoint

    entry = EntryPoint("theirs", "their_package:Theirs", "mixtailor.attacks")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry] if group == entry.group else [])
    assert main(["attacks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["registered"] == {"theirs": "their_package:Theirs"}
    assert main(["attacks"]) == 0
    assert "theirs: registered by their_package:Theirs" in capsys.readouterr().out


def test_demo_trains_under_attack(capsys, tmp_path):
    """A tenth of the demonstration: every rule under every attack, a worst case for each, and the page."""
    arguments = ["demo", "--scale", "0.1", "--seeds", "1", "--jobs", "1", "--json", "--out", str(tmp_path)]
    assert main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    two, four = first["groups"]
    assert two["attacks"] == four["attacks"] == ["epsilon 0.1", "epsilon 10", "adaptive"]
    worst = {case["rule"]: case["accuracy"] for case in two["worst"]}
    assert set(worst) >= {"omniscient", "mean", "Krum", "MixTailor (our pool)", "MixTailor (paper's pool)"}
    assert worst["omniscient"] > worst["mean"] + 20
    assert "Bulyan" in two["rules"] and "Bulyan" not in four["rules"]
    assert (tmp_path / "demo" / "report.html").is_file() and first["report"].endswith("report.html")
    assert main(arguments) == 0, "complete runs are not repeated"
    again = json.loads(capsys.readouterr().out)
    assert again["groups"] == first["groups"]


@pytest.fixture
def trail(tmp_path):
    log = tmp_path / "run.audit"
    pool = ["Krum(f=1)", "Comed()"]
    trail = AuditTrail.start(log, pool, run="test")
    trail.draw({"ann": bytes(32), "bob": bytes(32)}, pool=pool)
    trail.close()
    return log, trail.commitment


def test_audit_of_a_log_that_holds(trail, capsys):
    log, commitment = trail
    assert main(["audit", str(log), "--commitment", commitment]) == 0
    assert "holds" in capsys.readouterr().out
    assert main(["audit", str(log), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and len(report["draws"]) == 1 and len(report["draws"][0]["key"]) == 64


def test_audit_of_a_log_that_does_not(trail, capsys):
    log, commitment = trail
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:1] + lines[2:]))
    assert main(["audit", str(log), "--commitment", commitment]) == 1
    assert "does NOT hold" in capsys.readouterr().out
    assert main(["audit", str(log), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_audit_with_no_commitment_at_all(trail, capsys):
    assert main(["audit", str(trail[0]), "--commitment", "abc"]) == 1
    assert capsys.readouterr().err == (
        "A commitment is 64 hexadecimal digits, as published before training; got 'abc'.\n"
    )


@pytest.mark.parametrize("arguments", [["nope"], ["rules", "--nope"], ["audit"], ["demo", "--seeds", "many"]])
def test_wrong_usage_is_one_line_and_exits_2(arguments, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1 and "--help" in shown.err


def test_without_a_command_there_is_help(capsys):
    assert main([]) == 2
    shown = capsys.readouterr()
    assert "aggregate" in shown.out + shown.err


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_package_is_named(package):
    """Without the extra the command line says what to install."""
    code = f"import sys; sys.modules[{package!r}] = None; from mixtailor.cli import main; sys.exit(main(['rules']))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert run.stderr == f'The command line needs `{package}`. Install it with: pip install "mixtailor[cli]"\n'


def test_the_library_does_not_load_the_command_line():
    code = "import mixtailor, sys; print([name for name in ('typer', 'rich', 'torch') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout == "[]\n"


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_quiet():
    """The child tells when it is inside its command, so that the signal does not meet an import or a compilation."""
    code = """
import sys, time
from mixtailor.cli import _training, main
def carry_out(*_arguments, **_options):
    print("ready", flush=True)
    time.sleep(60)
_training.carry_out = carry_out
sys.exit(main(["demo", "--json"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=50)
        finally:
            process.kill()  # nothing is left behind, whatever failed
    assert (process.returncode, out, err) == (130, "", "")
