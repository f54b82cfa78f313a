"""Runs code in a persistent namespace, and reports the outcome.

It does not limit the time: the bridge interrupts. If user code replaces what runs depend on, such as builtins, streams
or imports, that is restored before the next run.
"""

from __future__ import annotations

# The node classes without the ast module around them, which takes milliseconds to import.
import _ast
import builtins
import os
import sys
import threading
from _thread import _count as _count_threads
from types import CodeType, CoroutineType, ModuleType

from ..calls.call_check import refuse_what_cannot_succeed
from ..calls.results import InvalidCallError
from ..display.images import IMAGES
from ..display.matplotlib_figures import drop_figures, take_figures
from ..display.matplotlib_figures import install as show_figures
from ..display.text import listed
from ..kernel.signals import ITIMER_REAL, setitimer
from ..worker.saved_files import SAVED
from .left_running import LeftRunning
from .mutation_check import may_change
from .python_warnings import count_repeated, say_repeated
from .report import error_report, prepare
from .sources import SourceStore, plain
from .sources import install as show_sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..calls.calls import Calls
    from ..calls.port import Server
    from ..calls.proxies import Proxies
    from ..wire.frames import Frame
    from ..wire.output_record import OutputRecord
    from ..worker.event_loop import EventLoop
    from ..worker.interrupts import Interrupts
    from ..worker.streams import Streams


_CO_COROUTINE = 0x80
_FLAGS = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_TREE_FLAGS = _ast.PyCF_ONLY_AST | _FLAGS
# polars has threads with any setting, and waits for ever if they no longer exist.
LOST_THREADS = "polars does not work after a rollback, which has no threads: run with reset to use it again"
_NAMES_MAX = 5
_STOPS_MAX = 8
_THREAD_STACK_BYTES = 1 << 20
_RECURSION_LIMIT = sys.getrecursionlimit()
_compile, _getpid, _exit = compile, os.getpid, os._exit


def main_namespace() -> dict[str, Any]:
    """Creates a new `__main__` for user code and returns its namespace."""
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    vars(main)["__builtins__"] = builtins
    return vars(main)


class Interpreter:
    def __init__(
        self,
        namespace: dict[str, Any],
        streams: Streams,
        interrupts: Interrupts,
        calls: Calls,
        proxies: Proxies,
        load_skills: Callable[[str, list[CodeType], list[str]], None],
        record: OutputRecord,
    ) -> None:
        """`load_skills` loads what code names and nothing defines; it may add notes."""
        self.streams = streams
        self._record = record
        self.interrupts = interrupts
        self.calls = calls
        interrupts.run_code = Interpreter.run.__code__
        self._sources = SourceStore()
        self._pid = _getpid()
        self._namespace = namespace
        self._proxies, self._load_skills = proxies, load_skills
        show_figures()
        show_sources()
        count_repeated()
        self._left_running = LeftRunning()
        # Notes for the next run about what was done after the last one.
        self._notes: list[str] = []
        self._threads_left = False
        self._handled: BaseException | None = None
        # Whether the last run may have changed anything persistent.
        self.changed = False
        self._is_equipped = False
        threading.stack_size(_THREAD_STACK_BYTES)
        self._event_loop: EventLoop | None = None
        # sys.modules, and what is in it now.
        self._module_table, self._modules = sys.modules, dict(sys.modules)
        self._builtins = dict(vars(builtins))
        self._importers = list(sys.meta_path)

    def _equip(self) -> None:
        """Imports what is needed later, before code runs that may break imports."""
        import ast  # noqa: F401

        prepare()
        self._is_equipped = True

    def event_loop(self) -> EventLoop:
        if self._event_loop is None:
            from ..worker.event_loop import EventLoop

            self._event_loop = EventLoop(self.interrupts, self.calls, self._left_running.watch)
            self._event_loop.prepare()
        return self._event_loop

    def begin_worker(self) -> None:
        """Called in a copy of this process that becomes the worker: replaces what cannot be copied."""
        self._pid = _getpid()
        self._event_loop = None
        self._threads_left = False
        self._stop_hooks()
        # The exception that was being handled when a checkpoint was made. Later exceptions have nothing to do with it.
        self._handled = sys.exception()
        if "polars" in sys.modules:
            self._notes.append(LOST_THREADS)
        self.tidy()

    def begin_job(self) -> None:
        """Called in a copy of this process that becomes a job."""
        self._pid = _getpid()
        self._event_loop = None
        setitimer(ITIMER_REAL, 0)
        self._stop_hooks()
        if "asyncio" in sys.modules:
            # The running loop belongs to the other process.
            sys.modules["asyncio"]._set_running_loop(None)

    def preload(self, names: str) -> None:
        """Imports packages, with commas between their names, before the first run. It notes what fails."""
        for name in filter(None, names.split(",")):
            try:
                __import__(name)
            except BaseException as error:
                said = error.msg if isinstance(error, ImportError) else type(error).__name__
                self._notes.append(f"sandbox.preload: {name} cannot be imported ({said})")

    def run(self, number: int, code: str, servers: list[Server], *, images_as_files: bool = False) -> Frame:
        """Runs code and returns the `done` frame. The caller sends it, then calls `tidy`."""
        name = f"<run {number}>"
        code = plain(code)
        self.changed = True
        notes, self._notes = self._notes, []
        if self._threads_left:
            # Threads of an earlier run may have changed again what was restored.
            self._is_restored()
        self._sources.keep(name, code)
        self._left_running.run = number
        self.streams.begin_run(number)
        self.calls.begin_run(number, self._proxies.offer(servers))
        self._record.begin_run()
        IMAGES.begin_run(number, as_files=images_as_files)
        SAVED.begin_run()
        self.interrupts.begin_run()
        value: str | None = None
        bound: list[str] = []
        failure: BaseException | None = None
        end: Frame = {"outcome": "finished"}
        try:
            self.interrupts.run_active = True
            value, bound = self._execute(name, code, notes)
            take_figures()
            self.interrupts.run_active = False
        except BaseException as error:
            self.interrupts.run_active = False
            failure = error
        # Until they are off, timers and hooks of user code may raise in our code. Python removes a hook that raises.
        for _ in range(_STOPS_MAX):
            try:
                setitimer(ITIMER_REAL, 0)
                self._stop_hooks()
                break
            except BaseException:
                pass
        if failure is not None:
            self._restore_builtins(notes)
            self._allow_imports()
            drop_figures()
            if self._handled is not None:
                _cut_off(failure, self._handled)
            end = self._failed(failure, name, code)
            failure.__traceback__ = None  # it keeps all local variables of the failed code alive
            failure = None
        if _getpid() != self._pid:
            self._end_child(end)
        IMAGES.note(notes)
        self._note_installing(code, end, notes)
        self._threads_left = _count_threads() > self.calls.own_threads
        tasks = [] if self._event_loop is None else self._event_loop.unfinished()
        self._left_running.note(
            notes, self._threads_left, tasks, self.streams.started_process, self.streams.earlier_runs
        )
        self.calls.end_run(notes)
        say_repeated(self.streams.write_error)
        self.streams.end_run()
        # A copy, since a thread that outlives the run may add an image meanwhile.
        images = list(IMAGES.taken)
        done: Frame = {"type": "done", "run": number, **end, "value": value, "images": images, "notes": notes}
        if bound:
            done["bound"] = bound
        if SAVED.paths:
            done["saved"] = list(SAVED.paths)
        return done

    def tidy(self) -> None:
        """Restores what user code has replaced."""
        try:
            self._restore_builtins(self._notes)
            self.interrupts.arm()
        except BaseException:  # raised by a signal handler that user code left behind
            self._threads_left = True  # the next run tries again
        if not self._is_restored():
            self._threads_left = True

    def _execute(self, name: str, code: str, notes: list[str]) -> tuple[str | None, list[str]]:
        """Returns the value of a last expression, or else lines about the names that were bound."""
        with self.interrupts:
            pass  # an interrupt that came while the run was prepared takes effect here
        if "asyncio" in code:
            # The description of run_python uses asyncio without an import. A name of user code is not replaced.
            self._namespace.setdefault("asyncio", self.event_loop().asyncio)
        parts, names = self._compiled(code, name)
        self._load_skills(code, parts, notes)
        refuse_what_cannot_succeed(code, self.calls, self._namespace)
        self.changed = may_change(parts, self._namespace)
        if self.changed and not self._is_equipped:
            self._equip()
        if any(part.co_flags & _CO_COROUTINE for part in parts):
            value = self.event_loop().drive(self._execute_async(parts))
        else:
            value = None
            for part in parts:
                value = eval(part, self._namespace)
        if value is None and not names:
            return None, []
        self._allow_imports()
        from ..display import show, values
        from . import bindings  # at need: a first run that only prints does not wait for them

        if value is None:
            return None, bindings.lines(names, self._namespace)
        self._namespace["_"] = value
        self.changed = True
        if isinstance(value, CoroutineType) and not self.calls.unsent:
            notes.append("the last expression is a coroutine that was not awaited: put `await` before it")
        show.show_value(value)
        return values.shown(value), []

    def _compiled(self, code: str, name: str) -> tuple[list[CodeType], list[str]]:
        """Returns the compiled code and the names to show. A last expression is separate if its value is shown."""
        if "\n" not in code and not code[:1].isspace():
            # Many runs are one expression, for which this takes a third of the time.
            try:
                return [_compile(code, name, "eval", _FLAGS, dont_inherit=True)], []
            except SyntaxError:
                pass
        tree = _compile(code, name, "exec", _TREE_FLAGS, dont_inherit=True)
        assert isinstance(tree, _ast.Module)
        last = tree.body[-1] if tree.body else None
        parts: list[CodeType] = []
        if isinstance(last, _ast.Expr) and not code.rstrip().endswith(";"):
            parts.append(_compile(_ast.Expression(last.value), name, "eval", _FLAGS, dont_inherit=True))
        body = tree.body[: len(tree.body) - len(parts)]
        if body:
            statements = _ast.Module(body, type_ignores=[])
            parts.insert(0, _compile(statements, name, "exec", _FLAGS, dont_inherit=True))
        if isinstance(last, _ast.Expr):
            return parts, []
        from .bindings import bound_names

        return parts, bound_names(tree.body, code)

    async def _execute_async(self, parts: list[CodeType]) -> object:
        value: object = None
        for part in parts:
            value = eval(part, self._namespace)
            if part.co_flags & _CO_COROUTINE:
                value = await value  # type: ignore[misc]
        return value

    def _failed(self, error: BaseException, name: str, code: str) -> Frame:
        try:
            match error:
                case SystemExit(code=None):
                    return {"outcome": "exited", "exit_code": 0}
                case SystemExit(code=int(status)):
                    return {"outcome": "exited", "exit_code": status & 0xFF}
                case SystemExit(code=text):
                    from ..display.values import shown

                    self.streams.write_error(f"{text if isinstance(text, str) else shown(text)}\n")
                    return {"outcome": "exited", "exit_code": 1}
                case KeyboardInterrupt():
                    return {"outcome": "interrupted", "error": self._report(error, name, code)}
                case InvalidCallError() | ImportError() if type(line := getattr(error, "line", None)) is int:
                    # Nothing has run, so there is no traceback.
                    error_frame = {**error_report(error, name, code), "traceback": "", "line": line}
                    return {"outcome": "raised", "error": error_frame}
        except BaseException:  # a match asks the error for its class and attributes, which may run user code
            pass
        return {"outcome": "raised", "error": self._report(error, name, code)}

    def _report(self, error: BaseException, name: str, code: str) -> dict[str, object]:
        return error_report(error, name, code, self._record.keep_traceback)

    def _end_child(self, end: Frame) -> None:
        """Ends a process that user code forked and that has reached the end of the code, as a script ends there."""
        error = end.get("error")
        if isinstance(error, dict):
            self.streams.write_error(f"{error['traceback']}\n")
        self.streams.flush()
        code = end.get("exit_code", 0 if error is None else 1)
        _exit(code if isinstance(code, int) else 1)

    def _is_restored(self) -> bool:
        try:
            self._namespace.update(__name__="__main__", __builtins__=builtins)
            self._restore_imports()
            self.streams.restore()
            if self._event_loop is not None:
                self._event_loop.prepare()
        except BaseException:  # raised by an object of user code
            return False
        return True

    def _allow_imports(self) -> None:
        """Makes imports of the runtime work again, right after user code."""
        try:
            self._restore_imports()
        except BaseException:  # raised by an object of user code; most modules are already imported
            pass

    def _restore_imports(self) -> None:
        if getattr(sys, "modules", None) is not self._module_table:
            sys.modules = self._module_table
        if type(getattr(sys, "meta_path", None)) is not list:
            sys.meta_path = []
        if sys.modules.get("sys") is not sys or sys.modules.get("builtins") is not builtins:
            # After sys.modules.clear(), an import creates empty modules for these.
            sys.modules.update(self._modules)
        # A single removed module is imported again when it is needed. This is about sys.modules.clear().
        if len(sys.modules) < len(self._modules) or sys.modules.get("__main__") is not self._modules["__main__"]:
            missing = {name: module for name, module in self._modules.items() if name not in sys.modules}
            sys.modules.update(missing, __main__=self._modules["__main__"])
        path = sys.meta_path
        if len(path) < len(self._importers) or path[0] is not self._importers[0]:
            path[:0] = [ours for ours in self._importers if not any(ours is other for other in path)]

    def _restore_builtins(self, notes: list[str]) -> None:
        current = vars(builtins)
        try:
            if current == self._builtins:  # compares by identity, which is fast, unless an object of user code differs
                return
        except BaseException:
            pass
        replaced = [name for name, thing in self._builtins.items() if current.get(name, self) is not thing]
        if replaced:
            current.update(self._builtins)
            notes.append(f"builtins that were replaced are restored: {listed(replaced, _NAMES_MAX)}")

    def _stop_hooks(self) -> None:
        """Removes hooks that would run user code inside ours, and a recursion limit that is too low for ours."""
        if sys.gettrace() is not None:
            sys.settrace(None)
        if sys.getprofile() is not None:
            sys.setprofile(None)
        if sys.getrecursionlimit() < _RECURSION_LIMIT:
            sys.setrecursionlimit(_RECURSION_LIMIT)

    def _note_installing(self, code: str, end: Frame, notes: list[str]) -> None:
        """Adds a note if code installs packages, since such code mostly ignores errors."""
        if "install" in code:
            from .hints import NO_INSTALL, installs_packages

            error = end.get("error")
            if installs_packages(code) and not (isinstance(error, dict) and NO_INSTALL in error["hint"]):
                notes.append(NO_INSTALL)


def _cut_off(error: BaseException, handled: BaseException) -> None:
    """Removes an exception that was handled before the run from the contexts of this error."""
    raised: BaseException | None = error
    while raised is not None:
        if raised.__context__ is handled:
            raised.__context__ = None
        raised = raised.__context__
