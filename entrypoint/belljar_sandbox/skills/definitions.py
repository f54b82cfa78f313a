"""Checks that a source has only definitions, so that its import runs no other code of it.

It does not judge what functions do when they are called, nor imported libraries. Annotations are never evaluated.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import symtable
from collections.abc import Callable
from types import CodeType, ModuleType

from ..display.text import begin

_FLAGS = __future__.annotations.compiler_flag
# Names that every session has without an import.
_SESSION_NAMES = frozenset(["LOADED_MCP_SERVERS", "asyncio", "mcp", "mcp_servers", "runtime", "save_tool"])
# Decorators and values of fields that are harmless, by their origin.
_DECORATORS = frozenset(
    [
        "abc.abstractmethod",
        "builtins.classmethod",
        "builtins.property",
        "builtins.staticmethod",
        "contextlib.asynccontextmanager",
        "contextlib.contextmanager",
        "dataclasses.dataclass",
        "functools.cache",
        "functools.cached_property",
        "functools.lru_cache",
        "functools.total_ordering",
        "typing.final",
        "typing.overload",
    ]
)
_WITH_OPTIONS = frozenset(["dataclasses.dataclass", "functools.lru_cache"])
_FIELDS = frozenset(["dataclasses.field", "enum.auto"])
_PROPERTY_PARTS = frozenset(["deleter", "getter", "setter"])
# Methods that Python calls when the class is defined or when another class statement uses it, and those that create the
# members of enums.
_HOOKS = frozenset(["__class_getitem__", "__init_subclass__", "__mro_entries__", "__prepare__", "__set_name__"])
_ENUM_HOOKS = frozenset(["__init__", "__new__", "_generate_next_value_", "__hash__", "__eq__", "__setattr__"])
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv)
_SHOWN_MAX = 80


class NotOnlyDefinitionsError(ValueError):
    """A source has more than definitions; the message says what would run at import, and where."""


def is_session_name(name: str) -> bool:
    return name in _SESSION_NAMES or name.startswith("mcp_")


def compiled(source: str, file: str) -> tuple[CodeType, frozenset[str]]:
    """Returns the compiled code, and the names of the session that it uses."""
    tree = compile(source, file, "exec", ast.PyCF_ONLY_AST | _FLAGS, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    definitions = _Definitions(source)
    definitions.check_module(tree.body)
    used = global_names(source) - definitions.bound
    return compile(tree, file, "exec", _FLAGS, dont_inherit=True), frozenset(filter(is_session_name, used))


def load(module: ModuleType, source: str, file: str, lend: Callable[[ModuleType], None]) -> None:
    """Fills the module with what the source defines. `lend` adds the names of the session."""
    code, names = compiled(source, file)
    vars(module)["__session_names__"] = names
    lend(module)
    exec(code, vars(module))


def global_names(source: str) -> set[str]:
    """Returns the global names and builtins that the source uses anywhere."""
    found: set[str] = set()
    waiting = [symtable.symtable(source, "<names>", "exec")]
    for table in waiting:
        is_top = table.get_type() == "module"
        found.update(
            symbol.get_name()
            for symbol in table.get_symbols()
            if (symbol.is_referenced() if is_top else symbol.is_global())
        )
        waiting.extend(table.get_children())
    return found


class _Definitions:
    def __init__(self, source: str) -> None:
        self._lines = source.splitlines()
        # The origins of imported names that the top level binds only once.
        self._from: dict[str, str] = {}
        self.bound: set[str] = set()
        # The classes of the source, and the enums among them.
        self._classes: set[str] = set()
        self._enums: set[str] = set()

    def check_module(self, body: list[ast.stmt]) -> None:
        self._classes = {statement.name for statement in body if isinstance(statement, ast.ClassDef)}
        for statement in body:
            self._learn(statement)
        for statement in body:
            self._check(statement)

    def _learn(self, statement: ast.stmt) -> None:
        bound: list[tuple[str, str]] = []
        match statement:
            case ast.Import(names=aliases):
                bound = [(alias.asname or alias.name.partition(".")[0], alias.name) for alias in aliases]
            case ast.ImportFrom(module=module, names=aliases):
                bound = [(alias.asname or alias.name, f"{module}.{alias.name}") for alias in aliases]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound = [(name, "")]
            case ast.Assign(targets=targets):
                bound = [(target.id, "") for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                bound = [(name, "")]
        for name, origin in bound:
            if name in self.bound or not origin:
                self._from.pop(name, None)
            else:
                self._from[name] = origin
            self.bound.add(name)

    def _check(self, statement: ast.stmt, hooks: frozenset[str] | None = None) -> None:
        """`hooks`: in a class, the names of methods that would run."""
        in_class = hooks is not None
        match statement:
            case ast.Import() | ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.ImportFrom(level=0, names=aliases) if aliases[0].name != "*":
                pass
            case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
                if hooks is not None and statement.name in hooks:
                    self._refuse(statement, f"{statement.name} would be called")
                for decorator in statement.decorator_list:
                    self._check_decorator(decorator, in_class)
                for default in _defaults(arguments):
                    self._check_value(default)
            case ast.ClassDef(bases=bases, keywords=keywords, body=body):
                for decorator in statement.decorator_list:
                    self._check_decorator(decorator, in_class)
                for base in bases:
                    self._check_reference(base.value if isinstance(base, ast.Subscript) else base)
                    if isinstance(base, ast.Subscript):
                        self._check_subscript(base)
                if keywords:
                    self._refuse(statement, f"a class with {keywords[0].arg or '**'}=")
                if any(self._is_enum(base) for base in bases):
                    self._enums.add(statement.name)
                for inner in body:
                    self._check(inner, _HOOKS | _ENUM_HOOKS if statement.name in self._enums else _HOOKS)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._check_target(target, hooks)
                self._check_value(value, in_class)
            case ast.AnnAssign(target=target, value=value):
                self._check_target(target, hooks)
                self._check_value(value, in_class)
            case _:
                self._refuse(statement, "no definition")

    def _check_target(self, target: ast.expr, hooks: frozenset[str] | None) -> None:
        match target:
            case ast.Name(id=name) if hooks is not None and name not in hooks:
                pass
            case ast.Name(id=name) if hooks is None and (not name.startswith("__") or name == "__all__"):
                pass
            case _:
                self._refuse(target, "an assignment to something else than a plain name")

    def _check_decorator(self, decorator: ast.expr, in_class: bool) -> None:
        match decorator:
            case ast.Attribute(value=ast.Name(), attr=attr) if in_class and attr in _PROPERTY_PARTS:
                return
            case ast.Call(func=function, args=arguments, keywords=keywords):
                origin = self._origin(function)
                if origin == "functools.wraps" and len(arguments) == 1 and not keywords:
                    self._check_value(arguments[0])
                    return
                # Only constants are allowed, since a decorator may call its arguments.
                options = [keyword.value for keyword in keywords if keyword.arg is not None]
                are_plain = all(isinstance(value, ast.Constant) for value in options)
                if arguments or len(options) != len(keywords) or not are_plain or origin not in _WITH_OPTIONS:
                    self._refuse(decorator, "a decorator with more than options that are constants")
                return
            case function:
                pass
        if self._origin(function) not in _DECORATORS:
            self._refuse(decorator, "a decorator that is not known to be harmless")

    def _check_value(self, value: ast.expr | None, is_field: bool = False) -> None:
        """Allows literals, names, lambdas, and arithmetic with numbers. `is_field` also allows calls of `_FIELDS`."""
        match value:
            case None | ast.Constant():
                pass
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                for item in items:
                    self._check_value(item)
            case ast.Dict(keys=keys, values=values):
                for part in (*keys, *values):
                    self._check_value(part)
            case ast.Name() | ast.Attribute():
                self._check_reference(value)
            case ast.UnaryOp(op=ast.UAdd() | ast.USub() | ast.Not(), operand=ast.Constant()):
                pass
            case ast.BinOp(op=op) if isinstance(op, _OPERATORS) and _is_arithmetic(value):
                pass
            case ast.Call(func=function, args=arguments, keywords=keywords) if (
                is_field and self._origin(function) in _FIELDS
            ):
                for item in (*arguments, *(keyword.value for keyword in keywords)):
                    self._check_value(item)
            case ast.Lambda(args=arguments):
                for default in _defaults(arguments):
                    self._check_value(default)
            case _:
                self._refuse(value, "no literal and no name")

    def _check_reference(self, node: ast.expr) -> None:
        """Allows a name, or a dotted name that begins with an import or a class of the source."""
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        match inner:
            case ast.Name(id=name) if inner is node or name in self._from or name in self._classes:
                pass
            case _:
                self._refuse(node, "neither a name nor something of a module")

    def _is_enum(self, base: ast.expr) -> bool:
        return self._origin(base).startswith("enum.") or (isinstance(base, ast.Name) and base.id in self._enums)

    def _check_subscript(self, node: ast.Subscript) -> None:
        """Allows brackets only after classes of typing and collections.abc, as in Generic[T]. Others may run code."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for item in items:
            self._check_value(item)
        if not self._origin(node.value).startswith(("typing.", "collections.abc.")):
            self._refuse(node, "a class in brackets that is not typing's")

    def _origin(self, node: ast.expr) -> str:
        """Returns the origin of a name as a dotted name; empty if it is unknown."""
        match node:
            case ast.Name(id=name) if name in self._from:
                return self._from[name]
            case ast.Name(id=name) if name not in self.bound and name in vars(builtins):
                return f"builtins.{name}"
            case ast.Attribute(value=ast.Name(id=module), attr=name) if self._from.get(module) == module:
                return f"{module}.{name}"
        return ""

    def _refuse(self, node: ast.AST, what: str) -> None:
        line = getattr(node, "lineno", 0)
        text = begin(self._lines[line - 1].strip(), _SHOWN_MAX) if 0 < line <= len(self._lines) else ""
        raise NotOnlyDefinitionsError(
            f"line {line} would run at import ({what}): {text}; only imports, functions, classes and constants may "
            "stand outside functions"
        )


def _defaults(arguments: ast.arguments) -> list[ast.expr | None]:
    return [*arguments.defaults, *arguments.kw_defaults]


def _is_arithmetic(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=number):
            return type(number) in (int, float, complex)
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, _OPERATORS) and _is_arithmetic(left) and _is_arithmetic(right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_arithmetic(operand)
    return False
