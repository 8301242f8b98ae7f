"""Writes docs/reference from the code: commands, options, settings, hooks, metrics, exit codes, rights; also the man
page and the completions of the command line.

    python -m tests.reference            writes the files
    python -m tests.reference --check    says which are not as the code is, exit code 1

Knows where the code describes itself; knows nothing that only a page would say.
"""

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import shtab

from elasticd import hookspecs
from elasticd.base.errors import EXIT_CODES
from elasticd.cli import parser
from elasticd.config import Settings
from elasticd.model.policy import PolicyKeys, PoolKeys
from elasticd.model.rights import FEATURES, Feature, listed
from elasticd.registry import HOOKS, Registry, discover
from elasticd.telemetry.metrics import DaemonMetrics
from elasticd.ui.installed import described, everything
from elasticd.ui.options import Option, options

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
PLACES = {"all": "all namespaces", "home": "its own namespace", "each": "namespaces that you name"}
ABOUT = {
    "strategy": "Strategies of workloads, in `[[strategy]]`",
    "pool strategy": "Strategies of pools, in `[[strategy]]`",
    "limit": "Limits, in `[[limit]]`",
    "source": "Sources, in `[[source]]` of elasticd.toml",
}


class Command(NamedTuple):
    """One command, or elasticd itself."""

    name: str
    text: str
    arguments: list[argparse.Action]


def commands() -> list[Command]:
    """All commands, in the order of --help."""
    (actions,) = [action for action in arguments_of(parser()) if isinstance(action.choices, dict)]
    assert isinstance(actions.choices, dict)
    return [
        Command(name, command.description or "", arguments_of(command)) for name, command in actions.choices.items()
    ]


def arguments_of(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a command takes, but for --help."""
    actions: list[argparse.Action] = command._actions
    return [action for action in actions if action.dest != "help"]


def value_of(action: argparse.Action) -> str:
    """What stands for an argument's value."""
    if action.nargs == 0:
        return ""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    value = metavar or choices or (action.dest.upper() if action.option_strings else action.dest)
    return value + " ..." * (action.nargs in ("+", "*"))


def call_of(action: argparse.Action) -> str:
    """How an argument is given: `-n, --namespace NAMESPACE`."""
    return " ".join(filter(None, (", ".join(action.option_strings), value_of(action))))


def usage(command: Command) -> str:
    """A line that shows all arguments."""
    words = ["elasticd", command.name]
    for action in sorted(command.arguments, key=lambda action: not action.option_strings):
        word = " ".join(filter(None, (*action.option_strings[-1:], value_of(action))))
        must = action.required if action.option_strings else action.nargs not in ("?", "*")
        words.append(word if must else f"[{word}]")
    return " ".join(words)


def table(*head: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown; a bar within a cell is escaped."""
    cells = ([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)
    lines = (f"| {' | '.join(row)} |" for row in cells)
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines, ""]


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def words(text: str) -> str:
    """Prose as Markdown: what stands in angle brackets is no HTML."""
    return text.replace("<", "\\<").replace("*", "\\*").replace("[", "\\[")


def page_of_commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "`elasticd COMMAND --help` prints the same. Exit codes: [exit codes](exit-codes.md).\n"
    for command in commands():
        yield f"## elasticd {command.name}\n"
        yield f"{words(command.text)}\n"
        yield f"```text\n{usage(command)}\n```\n"
        rows = [(code(call_of(action)), words(action.help or "")) for action in command.arguments]
        yield from table("argument", "meaning", rows=rows)


def rows_of(found: Iterable[Option]) -> Iterator[tuple[str, str, str, str]]:
    """Options as rows; a table shows its keys instead of its default."""
    for option in found:
        kind = re.sub(r"^$|(?<=of )$", "string", option.kind)
        default = "" if kind == "table" and option.default != "required" else option.default
        yield (
            code(option.name),
            kind,
            default if default in ("required", "unset") else code(default),
            words(option.description),
        )


def page_of_kind(kind: str, registry: Registry) -> Iterator[str]:
    """All that are bundled of one kind."""
    yield f"# {ABOUT[kind].split(',')[0]}\n"
    yield f"{ABOUT[kind]}. `elasticd plugins NAME` prints the same, and of plugins that you have installed.\n"
    found = [
        described(plugin, registry) for plugin in everything(registry) if plugin.distribution.startswith("elasticd ")
    ]
    for plugin in sorted((one for one in found if one["kind"] == kind), key=lambda one: one["name"]):
        yield f"## {plugin['name']}\n"
        yield f"{words(plugin['doc'])}\n"
        yield from table("option", "type", "default", "meaning", rows=rows_of(plugin["options"]))


def page_of_settings() -> Iterator[str]:
    yield "# Settings\n"
    yield "The keys of elasticd.toml. [config/elasticd.toml](../../config/elasticd.toml) has each at its default,"
    yield "with a comment. [Simulated clusters](../simulated-cluster.md) have more.\n"
    elsewhere = ("sources", "renamed", "cluster[simulated]")
    found = [option for option in options(Settings) if not option.name.startswith(elsewhere)]
    for name, group in groupby(found, key=lambda option: re.split(r"\.|\[(?=\])", option.name)[0]):
        yield f"## {name}\n"
        yield from table("key", "type", "default", "meaning", rows=rows_of(group))


def page_of_policies() -> Iterator[str]:
    yield "# Policies\n"
    yield "The keys of a policy's file. Beside them stand `[[strategy]]` ([strategies](strategies.md),"
    yield "[of pools](pool-strategies.md)) and `[[limit]]` ([limits](limits.md)).\n"
    for title, keys in (("Of workloads", PolicyKeys), ("Of a pool", PoolKeys)):
        yield f"## {title}\n"
        yield from table("key", "type", "default", "meaning", rows=rows_of(options(keys)))


def page_of_hooks() -> Iterator[str]:
    yield "# Hooks\n"
    yield "What a plugin can implement, in the order of [elasticd/hookspecs.py](../../elasticd/hookspecs.py)."
    yield "[plugins](../plugins.md) says how.\n"
    for name in HOOKS:
        hook = getattr(hookspecs, name)
        yield f"## {name}\n"
        text = re.sub(r"\b[a-z_]+(?:\.[a-z_]+)*\.(?=[A-Z])", "", str(inspect.signature(hook)))
        yield f"```python\n{name}{text}\n```\n"
        yield f"{words(inspect.getdoc(hook) or '')}\n"


def page_of_metrics() -> Iterator[str]:
    yield "# Metrics\n"
    yield "What `/metrics` shows. Scrape with `honor_labels: true`: `namespace` is the workload's."
    yield "[runbook](../runbook.md) has the alerts.\n"
    rows = [
        (code(metric.name), metric.kind, ", ".join(map(code, metric.labels)), words(metric.text))
        for metric in DaemonMetrics().described()
    ]
    yield from table("metric", "type", "labels", "meaning", rows=sorted(rows))


def page_of_exit_codes() -> Iterator[str]:
    yield "# Exit codes\n"
    yield from table("code", "meaning", rows=[(str(number), words(text)) for number, text in EXIT_CODES.items()])


def page_of_rights() -> Iterator[str]:
    yield "# Rights\n"
    yield "What elasticd may do, by the file of [config/kubernetes](../../config/kubernetes) that grants it."
    yield "[running](../running.md#rights) says what each file gives to somebody who takes over elasticd.\n"

    def row(feature: Feature) -> tuple[str, ...]:
        return (code(feature.file), feature.purpose, code(listed(feature.rights)), PLACES[feature.place])

    yield from table("file", "to", "rights", "where", rows=sorted(map(row, FEATURES)))


def man_page() -> Iterator[str]:
    """elasticd(1), in the macros of man(7)."""

    def roff(text: str) -> str:
        return re.sub(r"^(?=[.'])", "\\\\&", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)

    yield '.TH ELASTICD 1 "" "elasticd" "User Commands"'
    yield f".SH NAME\nelasticd \\- {roff('keeps a Kubernetes cluster elastic')}"
    yield ".SH SYNOPSIS\n.B elasticd\n.I COMMAND\n.RI [ ARGUMENT ...]"
    yield ".SH COMMANDS"
    for command in commands():
        yield f".SS {roff(usage(command))}\n{roff(command.text)}"
        for action in command.arguments:
            yield f".TP\n.B {roff(call_of(action))}\n{roff(action.help or '')}"
    yield ".SH EXIT STATUS"
    for number, text in EXIT_CODES.items():
        yield f".TP\n.B {number}\n{roff(text)}"
    yield ".SH FILES\n.TP\n.I /etc/elasticd/elasticd.toml\nSettings."
    yield ".TP\n.I /var/lib/elasticd\nThe journal of decisions."


def completion(shell: str) -> str:
    """What a shell reads to complete the command line."""
    command = parser()
    for one in (command, *_parsers(command)):
        for action in arguments_of(one):
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab looks there
    return str(shtab.complete(command, shell=shell))


def _parsers(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in arguments_of(command):
        if isinstance(action.choices, dict):
            yield from action.choices.values()


def _joined(page: Callable[[], Iterable[str]]) -> str:
    return "\n".join(page()).rstrip() + "\n"


def files() -> Mapping[Path, Callable[[], str]]:
    """Every generated file, and what makes it."""
    registry = discover()
    pages: dict[str, Callable[[], Iterable[str]]] = {
        "commands.md": page_of_commands,
        "strategies.md": partial(page_of_kind, "strategy", registry),
        "pool-strategies.md": partial(page_of_kind, "pool strategy", registry),
        "limits.md": partial(page_of_kind, "limit", registry),
        "sources.md": partial(page_of_kind, "source", registry),
        "settings.md": page_of_settings,
        "policies.md": page_of_policies,
        "hooks.md": page_of_hooks,
        "metrics.md": page_of_metrics,
        "exit-codes.md": page_of_exit_codes,
        "rights.md": page_of_rights,
        "man/elasticd.1": man_page,
    }
    made = {FOLDER / name: partial(_joined, page) for name, page in pages.items()}
    shells = {"bash/elasticd": "bash", "zsh/_elasticd": "zsh", "fish/elasticd.fish": "fish"}
    return made | {FOLDER / name: partial(completion, shell) for name, shell in shells.items()}


def stale() -> list[str]:
    """The files that are not as the code is."""
    return [
        str(path.relative_to(ROOT))
        for path, make in files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != make()
    ]


def main(arguments: Sequence[str]) -> int:
    if "--check" in arguments:
        names = stale()
        for name in names:
            print(f"{name}: must be as the code is, is not: make reference")
        return 1 if names else 0
    for path, make in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
