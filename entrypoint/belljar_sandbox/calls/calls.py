"""The calls that user code makes: sends them, bounds how many are in flight, and delivers their results.

The bridge decides whether a call is allowed. Results are read by a waiting synchronous call on the main thread or by
the session's event loop, otherwise by the channel's own thread.
"""

from __future__ import annotations

from _thread import allocate_lock
from _thread import get_ident as _get_ident
from collections import deque
from collections.abc import Callable, Coroutine, Mapping

from ..display.text import listed
from ..wire.frames import Frame, encode
from ..worker.run_origin import RUN
from .arguments import Reference, blob_place, encode_arguments
from .placeholder import Placeholder, note_uses
from .results import InvalidCallError, MCPError, answer, note_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from typing import Any

    from ..worker.channel import Channel
    from ..worker.interrupts import Interrupts
    from .plan import Plan, PlannedCall
    from .port import Server

_MAIN_THREAD = _get_ident()
_CALLS_PER_WORKER_BITS = 32
_NAMES_MAX = 5
_TOOLS_KNOWN_MAX = 1_000
# How many calls of a job may be in flight.
CALLS_OF_JOB_MAX = 16
# How many bytes of a job's large frames may be in flight.
ARGUMENTS_OF_JOB_BYTES_MAX = 8 << 20
# Frames up to this size do not wait for other calls to end.
_SMALL_FRAME_BYTES = 1 << 16
# The helpers that a plan lists. They have effects outside of the bridge, as calls of tools have.
_LISTED_HELPERS = {"ask_llm", "save_tool", "remove_skill", "read_resource", "get_prompt"}


class _Waiter:
    """What waits for a call: a thread (`lock`), or a future of an event loop."""

    __slots__ = ("bytes", "call", "frame", "future", "leads", "listed", "lock", "loop", "needs_thread", "sent")

    def __init__(self, loop: AbstractEventLoop | None, listed: PlannedCall | None) -> None:
        """`listed`: the call in the plan that is open."""
        self.loop = loop
        self.listed = listed
        # The number of the call.
        self.call = 0
        self.future: Future[Frame] | None = loop.create_future() if loop is not None else None
        self.lock = allocate_lock()
        self.frame: Frame = {}
        # The bytes of its frame that count as in flight.
        self.bytes = 0
        self.sent = self.leads = self.needs_thread = False
        if loop is None:
            self.lock.acquire()


class Calls:
    def __init__(
        self,
        channel: Channel,
        interrupts: Interrupts,
        flush: Callable[[], None],
        in_flight_max: tuple[int, int],
        worker: int,
    ) -> None:
        """`in_flight_max`: how many calls may be in flight, and how many bytes of their large frames."""
        self.servers: Mapping[str, Server] = {}
        self.is_of_job = False
        self._channel = channel
        self._interrupts = interrupts
        self._flush_output = flush
        self._in_flight_max, self._bytes_max = max(1, in_flight_max[0]), in_flight_max[1]
        # The number of the current run; None between runs.
        self.run: int | None = None
        self.begin_worker(worker)
        self._pending: dict[int, _Waiter] = {}
        self._queue: deque[tuple[int, bytes]] = deque()
        # Large frames that wait for other calls to end. Smaller ones overtake them.
        self._large: deque[tuple[int, bytes]] = deque()
        # The open plan, which lists the calls that are made now.
        self.plan: Plan | None = None
        # How often each tool was called in this run without `await` so far. Such a call is never sent.
        self.unsent: dict[str, int] = {}
        # The function of asyncio, once that is imported.
        self._get_running_loop: Callable[[], AbstractEventLoop] | None = None
        # The encoded names of tools that were called.
        self._names_json: dict[tuple[str | None, str], bytes] = {}
        # Calls that are made in one iteration of an event loop are sent together.
        self._batches: dict[AbstractEventLoop, list[tuple[int, bytes]]] = {}
        self._forget_calls()
        self._forget_readers()
        channel.on_results = self._resolve
        channel.on_lost_result = self._lost_result

    def leave_run(self) -> None:
        """Called in a copy of this process that becomes the worker: the calls in flight belong to the old worker."""
        self.run = self.plan = None
        self.unsent = {}
        self._forget_calls()
        self._forget_readers()

    def begin_worker(self, worker: int) -> None:
        """Called between two runs, when no call is in flight."""
        self._lock = allocate_lock()
        self.in_child = False
        # Numbers differ between workers, so that a result for an earlier worker answers no call of this one.
        self._last = worker << _CALLS_PER_WORKER_BITS

    def begin_job(self) -> None:
        """Called in a job, which was forked in the middle of a run: the calls in flight belong to the worker."""
        self._lock = allocate_lock()
        self.in_child, self.is_of_job = False, True
        self._in_flight_max = min(self._in_flight_max, CALLS_OF_JOB_MAX)
        self._bytes_max = min(self._bytes_max, ARGUMENTS_OF_JOB_BYTES_MAX)
        self.unsent = {}
        self._forget_calls()
        self._forget_readers()

    def _forget_calls(self) -> None:
        for waiting in (self._pending, self._queue, self._large, self._batches):
            waiting.clear()
        self._in_flight = self._bytes = 0

    def _forget_readers(self) -> None:
        # Whether the main thread reads in a synchronous call of its own (_leading) or in its event loop (_loop_reads).
        self._leading = self._loop_reads = False
        self.main_loop: AbstractEventLoop | None = None

    @property
    def own_threads(self) -> int:
        return self._channel.own_threads

    def begin_run(self, run: int, servers: Mapping[str, Server]) -> None:
        RUN.set(run)
        with self._interrupts, self._lock:
            self.run = run
            self.servers = servers

    def end_run(self, notes: list[str]) -> None:
        with self._interrupts:
            self._stop_loop_reading()
            with self._lock:
                run, self.run = self.run, None
                self.plan = None
                unsent, self.unsent = self.unsent, {}
                waiters = list(self._pending.items())
                self._forget_calls()
            cancels = [{"type": "cancel", "run": run, "call": call} for call, waiter in waiters if waiter.sent]
            if cancels:
                self._channel.send(b"".join(map(encode, cancels)))
            ended = "the run that made this call has ended"
            never_sent = _fault("not_running", ended)
            cut_off = _fault("cancelled", f"{ended}; whether the call took effect is unknown")
            self._wake([(waiter, cut_off if waiter.sent else never_sent) for _, waiter in waiters])
            self._channel.read_here()
        if unsent:
            notes.append(_never_awaited(unsent))
        note_uses(notes)
        note_beside(notes)

    def later(self, server: str, tool: str, arguments: object, handle: bool = False) -> Coroutine[Any, Any, Any]:
        """Returns a coroutine that makes the call when it is awaited."""
        name = f"{server}.{tool}"
        with self._lock:
            self.unsent[name] = self.unsent.get(name, 0) + 1
        call = self._awaited(name, server, tool, arguments, handle)
        call.__qualname__ = name  # type: ignore[attr-defined] # what Python's own warning calls it
        return call

    def is_awaited(self, name: str) -> None:
        """Notes that a call created by `later` is awaited, here or in a job."""
        with self._lock:
            left = self.unsent.pop(name, 1) - 1
            if left > 0:
                self.unsent[name] = left

    async def _awaited(self, name: str, server: str, tool: str, arguments: object, handle: bool) -> Any:
        self.is_awaited(name)
        return await self.call(server, tool, arguments, handle)

    async def call(self, server: str | None, tool: str, arguments: object, handle: bool = False) -> Any:
        """Makes a call. `handle`: the result stays on the host, and a handle of it is returned."""
        waiter = self._submit(server, tool, arguments, handle, self._running_loop())
        assert waiter.future is not None
        try:
            waiter.frame = await waiter.future
        except BaseException:
            self._abandon(waiter.call)
            raise
        return self._answer(waiter, server, tool, handle)

    def _running_loop(self) -> AbstractEventLoop:
        if self._get_running_loop is None:
            from ..worker.event_loop import get_running_loop

            self._get_running_loop = get_running_loop
        return self._get_running_loop()

    def call_sync(self, server: str | None, tool: str, arguments: object, handle: bool = False) -> Any:
        waiter = self._submit(server, tool, arguments, handle, None)
        try:
            if waiter.leads:
                self._lead(waiter)
            else:
                waiter.lock.acquire()
        except BaseException:
            self._abandon(waiter.call)
            raise
        return self._answer(waiter, server, tool, handle)

    def _answer(self, waiter: _Waiter, server: str | None, tool: str, handle: bool) -> Any:
        if waiter.listed is not None:
            waiter.listed.ended(waiter.frame)
        value = waiter.frame.get("value") if handle else None
        # Errors of the tool itself are raised as usual.
        if isinstance(value, dict) and "handle" in value:
            from .handles import Handle  # imported here, since few calls need it

            return Handle(value)
        return answer(waiter.frame, server, tool)

    def _listed(self, server: str | None, tool: str, arguments: object) -> PlannedCall | None:
        plan = self.plan
        if plan is None or RUN.get() != self.run or (server is None and tool not in _LISTED_HELPERS):
            return None
        return plan.begin("runtime" if server is None else server, tool, arguments)

    def _lead(self, waiter: _Waiter) -> None:
        """Reads until the waiter has its result. Results of other waiters are delivered meanwhile."""
        try:
            while waiter.lock.locked():
                self._channel.wait_and_read()
        finally:
            with self._interrupts, self._lock:
                self._leading = False
                if any(other.needs_thread for other in self._pending.values()):
                    self._channel.read_in_background()

    def _arrange_reading(self, waiter: _Waiter) -> None:
        """Decides who reads the result. The lock is held."""
        channel = self._channel
        if channel.reads_in_background:
            return
        on_main = _get_ident() == _MAIN_THREAD
        if on_main and waiter.loop is None:
            waiter.leads = self._leading = True
        elif on_main and waiter.loop is self.main_loop and waiter.loop is not None:
            if not self._loop_reads:
                self._loop_reads = True
                waiter.loop.add_reader(channel.fileno(), self._read_in_loop)
        else:
            waiter.needs_thread = True
            if not self._leading:
                channel.read_in_background()

    def _read_in_loop(self) -> None:
        if self._channel.reads_in_background:
            self._stop_loop_reading()
        else:
            self._channel.read_some()

    def _stop_loop_reading(self) -> None:
        if self._loop_reads:
            self._loop_reads = False
            if self.main_loop is not None and not self.main_loop.is_closed():
                self.main_loop.remove_reader(self._channel.fileno())

    def _submit(
        self, server: str | None, tool: str, arguments: object, handle: bool, loop: AbstractEventLoop | None
    ) -> _Waiter:
        """`loop`: the event loop that waits for the result; None if this thread does."""
        waiter = _Waiter(loop, self._listed(server, tool, arguments))
        if self.in_child:
            raise MCPError("calls can only be made by the main process, not by a forked one", code="not_running")
        names_json = self._names_json.get((server, tool)) or self._encode_names(server, tool)
        # If the server is not in this run, the bridge refuses the call and says why.
        known = self.servers.get(server) if server is not None else None
        body = encode_arguments(arguments)
        if known is not None and not known.takes_files and (place := blob_place(arguments, "arguments")):
            raise InvalidCallError(
                f"nothing was sent to {server}.{tool}: {place} is a binary value of the sandbox, which its entry "
                "keeps from this server (sandbox_files = false)",
                hint="the user decides that in the server's entry",
            )
        if Placeholder.made and Placeholder.is_in(arguments):
            body += b',"placeholders":true'
        if Reference.made and Reference.is_in(arguments):
            body += b',"handles":true'
        if handle:
            body += b',"handle":true'
        if self.plan is not None and self.plan.dry_run:
            body += b',"dry_run":true'
        self._flush_output()
        with self._interrupts:
            with self._lock:
                if self.run is None:
                    raise MCPError("no run is active: the run that started this code has ended", code="not_running")
                if RUN.get() != self.run:
                    raise _of_another_run(RUN.get())
                self._last = waiter.call = call = self._last + 1
                line = b'{"type":"call","run":%d,"call":%d,%b,"arguments":%b}\n' % (self.run, call, names_json, body)
                self._pending[call] = waiter
                self._arrange_reading(waiter)
                if not self._has_room(line):
                    (self._large if len(line) > _SMALL_FRAME_BYTES else self._queue).append((call, line))
                    return waiter
                # If no other call is in flight, this may be the only one, and it does not wait for a batch.
                if loop is not None and self._in_flight:
                    self._count(waiter, line)
                    batch = self._batches.get(loop)
                    if batch is None:
                        self._batches[loop] = batch = []
                        loop.call_soon(self._send_batch, loop)
                    batch.append((call, line))
                    return waiter
                self._count(waiter, line)
                waiter.sent = True
            self._channel.send(line)
        return waiter

    def _encode_names(self, server: str | None, tool: str) -> bytes:
        names_json = encode({"server": server, "tool": tool})[1:-2]
        if len(self._names_json) < _TOOLS_KNOWN_MAX:
            self._names_json[server, tool] = names_json
        return names_json

    def _send_batch(self, loop: AbstractEventLoop) -> None:
        with self._interrupts:
            with self._lock:
                lines = self._mark_sent(self._batches.pop(loop, []))
            if lines:
                self._channel.send(b"".join(lines))

    def _mark_sent(self, calls: list[tuple[int, bytes]]) -> list[bytes]:
        lines = []
        for call, line in calls:
            waiter = self._pending.get(call)
            if waiter is not None:
                waiter.sent = True
                lines.append(line)
        return lines

    def _has_room(self, line: bytes) -> bool:
        """Whether a frame may be sent now, as the only large one or beside others. The lock is held."""
        if self._in_flight >= self._in_flight_max:
            return False
        size = len(line)
        return size <= _SMALL_FRAME_BYTES or self._bytes == 0 or self._bytes + size <= self._bytes_max

    def _count(self, waiter: _Waiter, line: bytes) -> None:
        self._in_flight += 1
        waiter.bytes = len(line) if len(line) > _SMALL_FRAME_BYTES else 0
        self._bytes += waiter.bytes

    def _discount(self, waiter: _Waiter) -> None:
        self._in_flight -= 1
        self._bytes -= waiter.bytes

    def _refill(self) -> list[bytes]:
        """Returns the lines that may be sent now. The lock is held."""
        ready = []
        for queue in (self._large, self._queue):
            while queue and (queue[0][0] not in self._pending or self._has_room(queue[0][1])):
                call, line = queue.popleft()
                if call in self._pending:
                    self._count(self._pending[call], line)
                    ready.append((call, line))
        return self._mark_sent(ready)

    def _abandon(self, call: int) -> None:
        with self._interrupts:
            with self._lock:
                waiter = self._pending.pop(call, None)
                if waiter is None:
                    return
                lines = []
                if waiter.sent:
                    lines.append(encode({"type": "cancel", "run": self.run, "call": call}))
                if waiter.sent or any(call == batched for batch in self._batches.values() for batched, _ in batch):
                    self._discount(waiter)
                    lines += self._refill()
            if lines:
                self._channel.send(b"".join(lines))

    def _resolve(self, results: list[Frame]) -> None:
        answered = []
        with self._interrupts:
            with self._lock:
                for frame in results:
                    call = frame.get("call")
                    waiter = self._pending.get(call) if type(call) is int else None
                    if waiter is not None and waiter.sent:
                        del self._pending[call]  # type: ignore[arg-type]
                        self._discount(waiter)
                        answered.append((waiter, frame))
                lines = self._refill()
            if lines:
                self._channel.send(b"".join(lines))
            self._wake(answered)

    def _lost_result(self, why: str) -> None:
        fault = _fault("too_large", f"a result was lost: {why}")
        self._resolve([{**fault, "call": call} for call in list(self._pending)])

    def _wake(self, answered: list[tuple[_Waiter, Frame]]) -> None:
        by_loop: dict[AbstractEventLoop, list[tuple[Future[Frame], Frame]]] = {}
        for waiter, frame in answered:
            if waiter.loop is None or waiter.future is None:
                waiter.frame = frame
                waiter.lock.release()
            else:
                by_loop.setdefault(waiter.loop, []).append((waiter.future, frame))
        for loop, futures in by_loop.items():
            if self._loop_reads and loop is self.main_loop and loop.is_running() and _get_ident() == _MAIN_THREAD:
                _set_results(futures)
                continue
            try:
                loop.call_soon_threadsafe(_set_results, futures)
            except RuntimeError:  # the loop is closed, so that nothing waits any more
                pass


def _set_results(futures: list[tuple[Future[Frame], Frame]]) -> None:
    for future, frame in futures:
        if not future.done():
            future.set_result(frame)


def _of_another_run(run: int | None) -> MCPError:
    if run is None:
        return MCPError(
            "this call cannot be made: no run has started the thread or context that makes it", code="not_running"
        )
    return MCPError(
        f"this call cannot be made: it comes from a thread or task that run {run} started, and that run has ended",
        code="not_running",
        hint="start the thread or task in the run that needs it; runtime.spawn(f) is for work that outlives its run",
    )


def _never_awaited(unsent: dict[str, int]) -> str:
    tools = listed([f"{name} x {count}" if count > 1 else name for name, count in unsent.items()], _NAMES_MAX)
    return f"called without `await`, hence not sent: {tools}; put `await` before it, or use .sync(...)"


def _fault(code: str, message: str) -> Frame:
    return {"type": "result", "fault": {"code": code, "message": message, "hint": None}}
