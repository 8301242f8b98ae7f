"""What a thread is doing now, read from another thread.

Knows stack frames; knows nothing of who asks.
"""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType


def frames_of(thread: threading.Thread) -> list[FrameType]:
    """The frames of a thread, innermost first; none if it has ended."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  # documented; there is no other way
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def place(frame: FrameType) -> str:
    """The file, line and function that a frame is at."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"


def package_of(frame: FrameType) -> str:
    """The package that a frame's function belongs to."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def blocking(frames: Sequence[FrameType]) -> tuple[FrameType, FrameType | None]:
    """Of a stack whose innermost frame is first, the function that elasticd's own code called last, such as a
    plugin's, and the frame that called it. Without such a call: the function that an event loop or a thread began."""
    outermost = next((index for index, frame in enumerate(frames) if package_of(frame) == "asyncio"), len(frames))
    frames = frames[:outermost] or frames[:1]
    own = next((index for index, frame in enumerate(frames) if package_of(frame) == "elasticd"), len(frames))
    return frames[max(0, own - 1)], frames[own] if 0 < own < len(frames) else None
