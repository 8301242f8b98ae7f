"""What the sources of one file are called, and which of them are made of others.

Knows sources as they are decoded; knows nothing of policies.
"""

from collections.abc import Iterator, Sequence

from elasticd.base.errors import ConfigError
from elasticd.base.text import is_name, shown
from elasticd.config.tables import no_such
from elasticd.ports.source import JOURNAL, Source


def clashing(sources: Sequence[Source], file: str) -> list[ConfigError]:
    """A ConfigError for each name that is none or taken, and each source that needs another which is not there."""
    return [*_unnamed(sources, file), *_same_labels(sources, file), *_underived(sources, file)]


def _unnamed(sources: Sequence[Source], file: str) -> Iterator[ConfigError]:
    """Names of sources and of series that nobody could see, or write in a policy."""
    for index, source in enumerate(sources):
        if not is_name(source.label):
            yield ConfigError(file, f"source[{index}].name", f"must be a name on one line, is {shown(source.label)}")
        for name in source.offers() or ():
            if not is_name(name):
                problem = f"must have series with a name on one line, has {shown(name)}"
                yield ConfigError(file, f"source[{index}]", problem)


def _same_labels(sources: Sequence[Source], file: str) -> Iterator[ConfigError]:
    """Policies and reports call sources by these names, so each must have its own."""
    labels = [source.label for source in sources]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            problem = f'must differ from that of source[{labels.index(label)}], is "{label}"'
            yield ConfigError(file, f"source[{index}].name", problem)


def _underived(sources: Sequence[Source], file: str) -> Iterator[ConfigError]:
    """A source that is made of another needs that one: one with a past, or, where it reads it, one that is not made of
    others itself."""
    labels = [source.label for source in sources]
    with_past = [source.label for source in sources if source.remembers] + [JOURNAL]
    alone = [source.label for source in sources if source.draws() is None and source.derives() is None]
    for index, source in enumerate(sources):
        for label, allowed, lacks in (
            (source.derives(), with_past, "a source without a past"),
            (source.draws(), alone, "a source made of another"),
        ):
            if label is not None and label not in allowed:
                dumb = f", {lacks}" if label in labels else ""
                yield ConfigError(file, f"source[{index}].of", f"{no_such(label, allowed)}{dumb}")
