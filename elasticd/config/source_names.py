"""Checks the names of sources, and the references of those that are made of others.

Knows sources as they are decoded; knows nothing of policies.
"""

from collections.abc import Iterator, Sequence

from elasticd.base.errors import ConfigError
from elasticd.base.text import is_name, shown
from elasticd.config.tables import no_such
from elasticd.ports.source import JOURNAL, Source


def clashing(sources: Sequence[Source], file: str) -> list[ConfigError]:
    """A ConfigError for each invalid or duplicate name, and for each source that needs one that does not exist."""
    return [*_invalid_names(sources, file), *_same_labels(sources, file), *_unmet_references(sources, file)]


def _invalid_names(sources: Sequence[Source], file: str) -> Iterator[ConfigError]:
    """Names of sources and of series that cannot be printed, or written in a policy."""
    for index, source in enumerate(sources):
        if not is_name(source.label):
            yield ConfigError(file, f"source[{index}].name", f"must be a name on one line, is {shown(source.label)}")
        for name in source.offers() or ():
            if not is_name(name):
                problem = f"must have series with a name on one line, has {shown(name)}"
                yield ConfigError(file, f"source[{index}]", problem)


def _same_labels(sources: Sequence[Source], file: str) -> Iterator[ConfigError]:
    """Duplicate labels: policies and reports refer to sources by them."""
    labels = [source.label for source in sources]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            problem = f'must differ from that of source[{labels.index(label)}], is "{label}"'
            yield ConfigError(file, f"source[{index}].name", problem)


def _unmet_references(sources: Sequence[Source], file: str) -> Iterator[ConfigError]:
    """Sources that are made of a source which does not exist or does not fit: one that is derived needs one with a
    past, one that reads another needs one that is not made of others itself."""
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
