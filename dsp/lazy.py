"""Packages whose public names are imported at first use, so that `hearth --help` stays fast."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """Finds a public name in the module that defines it, and keeps it.

    A public name also wins over a module of the same name: Python binds a submodule as an attribute of its
    package whenever someone imports it, and `dsp.resample` must stay the function all the same.
    """

    _module_of: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_module_of"].get(name)
        if module is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in self._module_of:
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._module_of})


def lazy_package(package: str, home: Mapping[str, Iterable[str]]) -> list[str]:
    """Let the package `package` (its `__name__`) find the names that `home` lists for each module.

    Gives the sorted names, for `__all__`.
    """
    module_of = {name: module for module, names in home.items() for name in names}
    module = sys.modules[package]
    module.__dict__["_module_of"] = module_of
    module.__class__ = LazyPackage
    return sorted(module_of)
