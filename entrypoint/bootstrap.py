"""The text that `python3 -I -u -c` runs: it reads the bundle and starts its main module.

The bytes that were read after the bundle are passed to main().
"""

import builtins
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER
from _json import make_scanner

# User code can rebind the shared builtins.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

BUNDLE_BYTES_MAX = 16 << 20
# Made by remote/stream.py, if that text is in front.
stream = globals().get("stream")


class Importer:
    """Imports the bundle's modules before anything installed, and the same ones again after sys.modules.clear()."""

    def __init__(self, content: memoryview, files: dict[str, list[int]], code: dict[str, list[int]]) -> None:
        self.files = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in files}
        self.sources = {path: content[slice(*place)] for path, place in files.items()}
        self.loaded: dict[str, ModuleType] = {}
        self.builtins = __builtins__
        # Marshalled code of modules that were compiled before.
        self.code: dict[str, memoryview | bytes] = {name: content[slice(*place)] for name, place in code.items()}
        # Code that was compiled here, until the bridge has it.
        self.fresh: dict[str, CodeType] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        file = self.files.get(name)
        if file is None:
            return None
        return ModuleSpec(name, self, origin="<belljar>/" + file, is_package=file.endswith("/__init__.py"))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> "ModuleType | None":
        return self.loaded.get(spec.name)

    def exec_module(self, module: "ModuleType") -> None:
        name = module.__name__
        if name in self.loaded:
            return
        vars(module)["__builtins__"] = self.builtins
        code = self.code.get(name)
        exec(self.compiled(name) if code is None else marshal.loads(code), vars(module))
        # Only complete modules: a signal's handler may have raised in the middle.
        self.loaded[name] = module

    def source(self, file: str) -> str:
        return str(self.sources[file], "utf-8")

    def compiled(self, name: str) -> "CodeType":
        file = self.files[name]
        code = compile(self.source(file), "<belljar>/" + file, "exec", dont_inherit=True)
        self.fresh[name] = code
        return code


class Options:
    """For the scanner of the json package, whose import would take milliseconds."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float = float
    parse_int = int


def read_bundle() -> "tuple[dict[str, Any], memoryview, bytes]":
    """Returns the header, the content, and what was read after it."""
    data = bytearray()
    while (begin := data.find(b"\n") + 1) == 0:
        read_more(data)
    header, _ = make_scanner(Options)(data[:begin].decode(), 0)  # type: ignore[arg-type]
    end = begin + header["bytes"]
    while len(data) < end:
        read_more(data)
    return header, memoryview(bytes(data[begin:end])), bytes(data[end:])


def read_more(data: bytearray) -> None:
    chunk = os.read(0, 1 << 18) if stream is None else stream.wait()
    if not chunk:
        sys.exit("belljar: the bundle was not complete")
    data += chunk
    if len(data) > BUNDLE_BYTES_MAX:
        sys.exit("belljar: the bundle is longer than 16 MiB")


if __name__ == "__main__":
    header, content, rest = read_bundle()
    code: "Any" = header.get("code")
    # Code of another version of Python cannot be read.
    fits = bool(code) and code["magic"] == MAGIC_NUMBER.hex()
    importer = Importer(content, header["files"], code["modules"] if fits else {})
    sys.meta_path.insert(0, importer)
    __import__(header["main"])
    sys.modules[header["main"]].main(rest, importer, "code" in header and not fits, stream)
