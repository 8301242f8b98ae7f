"""The journal of decisions and outcomes: the only memory."""

from elasticd.journal.journal import Journal, Key, is_written
from elasticd.journal.lines import DECISIONS, Record
from elasticd.journal.reading import lines_after, misses_segments, read, read_back

__all__ = ["DECISIONS", "Journal", "Key", "Record", "is_written", "lines_after", "misses_segments", "read", "read_back"]
