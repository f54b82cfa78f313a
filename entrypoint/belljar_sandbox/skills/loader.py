"""Loads skills: for the module `skills`, and for bare names that nothing else defines.

The bridge stores the sources. A skill is loaded when it is used, into a module of its own, and only if its source has
nothing but definitions.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

from ..calls.port import port
from ..calls.results import MCPError
from ..kernel.type_names import Any
from ..run.report import error_report
from ..run.sources import SourceStore, plain
from ..wire.names import SKILLS_MODULE

_NAMES_MAX = 100
_ASKED_MAX = 10_000


class SkillLoader:
    """Loads skills, and imports the module `skills`."""

    def __init__(self, namespace: dict[str, Any], lent: Mapping[str, Any]) -> None:
        self.namespace = namespace
        # What the runtime offers in this run, by name, even if code has replaced it in its namespace.
        self.lent = lent
        self._sources = SourceStore()
        # Names that the bridge was already asked for.
        self._asked: set[str] = set()
        self._loaded: dict[str, ModuleType] = {}
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin="belljar") if name == SKILLS_MODULE else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return SkillsModule(self)

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete when it is created."""

    def function(self, name: str) -> Any:
        """Returns the function. MCPError if the skill cannot be used, AttributeError if it does not exist."""
        if name not in self._loaded:
            for row in load_skills([name]):
                self._define(row)
        if name not in self._loaded:
            message = f"module {SKILLS_MODULE!r} has no attribute {name!r}: print(runtime.skills) lists what is kept"
            raise AttributeError(message, name=name, obj=sys.modules.get(SKILLS_MODULE))
        if name not in vars(self._loaded[name]):
            raise MCPError(f"skill {name!r} is not there yet: it and another one import each other", code="denied")
        return vars(self._loaded[name])[name]

    def loaded_as(self, thing: object) -> str | None:
        """Returns the name of the skill that this function is; None if it is not one."""
        for name, module in self._loaded.items():
            if vars(module).get(name) is thing:
                return name
        return None

    def forget(self, name: str) -> None:
        """Forgets a loaded skill that has changed or was removed. Functions that were imported do not change."""
        self._loaded.pop(name, None)
        self._asked.discard(name)
        sys.modules.pop(f"{SKILLS_MODULE}.{name}", None)

    def load_for(self, code: str, parts: Iterable[CodeType], notes: list[str]) -> None:
        """Loads the skills that the code names and nothing defines. The bridge is asked for each name only once."""
        for module in self._loaded.values():
            self.lend(module)
        if not self._may_have_unknown_names(parts):
            return
        try:
            from .free_names import free_names  # imported here, since much code has no unknown names
        except Exception:  # user code has broken imports, so that no skill is loaded
            return
        defined = self.namespace.keys() | vars(builtins).keys()
        unknown = sorted(free_names(code) - defined - self._asked)[:_NAMES_MAX]
        if SKILLS_MODULE in unknown:
            self.namespace[SKILLS_MODULE] = __import__(SKILLS_MODULE)
            unknown.remove(SKILLS_MODULE)
        if not unknown or len(self._asked) > _ASKED_MAX:
            return
        try:
            rows = load_skills(unknown)
        except MCPError as error:
            notes.append(f"skills are not available: {error.message}")
            return
        self._asked.update(unknown)
        for row in rows:
            name = str(row.get("name"))
            try:
                self._define(row)
            except MCPError as error:
                notes.append(error.message)
                continue
            self.namespace[name] = vars(self._loaded[name])[name]

    def _define(self, row: dict[str, Any]) -> None:
        name = str(row.get("name"))
        if "problem" in row:
            raise MCPError(str(row["problem"]), code="denied")
        source, file = plain(str(row.get("source"))), f"<skill {name}>"
        from .definitions import NotOnlyDefinitionsError, load

        self._sources.keep(file, source)
        module = ModuleType(f"{SKILLS_MODULE}.{name}")
        # dataclasses and pickle look for the module in sys.modules.
        self._loaded[name] = sys.modules[module.__name__] = module
        try:
            load(module, source, file, self.lend)
            vars(module)[name]
        except NotOnlyDefinitionsError as error:
            self.forget(name)
            raise MCPError(f"skill {name!r} is not loaded: {error}", code="denied") from None
        except BaseException as error:
            self.forget(name)
            if not isinstance(error, Exception):
                raise
            report = error_report(error, file, source)
            raise MCPError(f"skill {name!r} cannot be loaded: {report['type']}: {report['message']}") from error

    def lend(self, module: ModuleType) -> None:
        """Gives the module what the run offers under the names that it uses, such as servers."""
        for name in vars(module).get("__session_names__", ()):
            if name == "asyncio":  # runs have it, too; imported only now, since it takes 40 ms
                import asyncio

                vars(module)[name] = asyncio
            elif name in self.lent:
                vars(module)[name] = self.lent[name]
            else:
                vars(module).pop(name, None)

    def _may_have_unknown_names(self, parts: Iterable[CodeType]) -> bool:
        """A cheap test before the syntax tree is searched. It takes attributes for names."""
        defined, built_in = self.namespace, vars(builtins)
        waiting = list(parts)
        for code in waiting:
            if not all(name in defined or name in built_in for name in code.co_names):
                return True
            waiting.extend(const for const in code.co_consts if isinstance(const, CodeType))
        return False


class SkillsModule(ModuleType):
    """The skills that sessions have saved: `from skills import name`. print(runtime.skills) lists them."""

    def __init__(self, skills: SkillLoader) -> None:
        super().__init__(SKILLS_MODULE, SkillsModule.__doc__)
        self.__dict__["_skills"] = skills

    def __getattr__(self, name: str) -> Any:
        # Python and notebooks look for such names on every object.
        if name.startswith(("__", "_ipython", "_repr_")):
            raise AttributeError(name)
        return self._skills.function(name)

    def __dir__(self) -> list[str]:
        try:
            return [str(row["name"]) for row in port().call_sync(None, "list_skills", {})]
        except MCPError:  # then skills cannot be loaded either
            return []

    def __repr__(self) -> str:
        return "<skills: from skills import name; print(runtime.skills) lists them>"


def load_skills(names: list[str]) -> list[dict[str, Any]]:
    """Returns what the bridge has of these skills: the source of each, or why there is none."""
    rows = port().call_sync(None, "load_skills", {"names": names})
    return rows if isinstance(rows, list) else []
