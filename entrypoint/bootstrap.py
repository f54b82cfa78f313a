"""The text that `python3 -I -u -c` runs: it reads the bundle from stdin and starts its main module from memory.

The bytes that were read after the line of the bundle are passed to main().
"""

import builtins
import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER
from _json import make_scanner
from binascii import a2b_base64
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

BUNDLE_BYTES_MAX = 16 << 20


class Importer:
    """Imports the bundle's modules before anything installed, and the same module again after sys.modules.clear().

    Its modules have builtins of their own, so that user code can rebind the shared ones without breaking the runtime.
    """

    def __init__(self, files: dict[str, str], code: dict[str, str]) -> None:
        self.files = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in files}
        self.sources = files
        self.loaded: dict[str, ModuleType] = {}
        self.builtins = dict(vars(builtins))
        # Marshalled code of modules that were compiled before, in base64.
        self.code = code
        # Code of modules that were compiled here, until the bridge has it.
        self.fresh: dict[str, CodeType] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        file = self.files.get(name)
        if file is None:
            return None
        return ModuleSpec(name, self, origin="<belljar>/" + file, is_package=file.endswith("/__init__.py"))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loaded.get(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name in self.loaded:
            return
        vars(module)["__builtins__"] = self.builtins
        code = self.code.get(name)
        exec(self.compiled(name) if code is None else marshal.loads(a2b_base64(code)), vars(module))
        # Only complete modules: an interrupt, or a signal handler of user code, may have raised in the middle.
        self.loaded[name] = module

    def compiled(self, name: str) -> CodeType:
        file = self.files[name]
        code = compile(self.sources[file], "<belljar>/" + file, "exec", dont_inherit=True)
        self.fresh[name] = code
        return code


class Options:
    """Options for the scanner of the json package, whose import would take milliseconds."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float = float
    parse_int = int


def read_bundle() -> tuple[bytes, bytes]:
    """Returns the line of the bundle, and what was read after it."""
    chunks, size = [], 0
    while size <= BUNDLE_BYTES_MAX:
        chunk = os.read(0, 1 << 16)
        if not chunk:
            sys.exit("belljar: stdin ended before the bundle was complete")
        head, line_feed, rest = chunk.partition(b"\n")
        chunks.append(head)
        size += len(head)
        if line_feed:
            return b"".join(chunks), rest
    sys.exit("belljar: the bundle is longer than 16 MiB")


if __name__ == "__main__":
    line, rest = read_bundle()
    bundle, _ = make_scanner(Options)(line.decode(), 0)  # type: ignore[arg-type] # whose stub wants another scanner
    code = bundle.get("code")
    # Code of another version of Python cannot be read.
    fits = bool(code) and code["magic"] == MAGIC_NUMBER.hex()
    importer = Importer(bundle["files"], code["modules"] if fits else {})
    sys.meta_path.insert(0, importer)
    __import__(bundle["main"])
    sys.modules[bundle["main"]].main(rest, importer, "code" in bundle and not fits)
