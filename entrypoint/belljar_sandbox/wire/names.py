"""Names on which modules of several folders agree."""

from __future__ import annotations

# The module that user code imports skills from.
SKILLS_MODULE = "skills"
# The byte with which a worker sends the listener of its filter, before the words on the filter.
LISTENER_COMES = b" "
CHECKPOINT_NAME_CHARACTERS_MAX = 64


def is_checkpoint_name(name: str) -> bool:
    return 0 < len(name) <= CHECKPOINT_NAME_CHARACTERS_MAX and name.isprintable() and name == name.strip()
