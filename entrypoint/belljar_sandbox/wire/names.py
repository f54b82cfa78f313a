"""Names that modules in different folders have to agree on."""

from __future__ import annotations

# The module that user code imports skills from.
SKILLS_MODULE = "skills"
# The byte that carries the listener of a worker's filter. The worker sends it before the words about the filter.
LISTENER_COMES = b" "
CHECKPOINT_NAME_CHARACTERS_MAX = 64


def is_checkpoint_name(name: str) -> bool:
    return 0 < len(name) <= CHECKPOINT_NAME_CHARACTERS_MAX and name.isprintable() and name == name.strip()
