"""Isolates the requests of a PyTorch module with state: each begins with the state of the file.

A call gets a copy of the module to itself, whose weights all copies share; only the state is copied
for each call. Copies are kept for later calls, as many as run at a time.
"""

import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

StatePaths = Sequence[tuple[str, str]]
"""Attributes that hold state: the path of their module, and their name."""
Holders = Sequence[tuple[Any, str]]
"""The same in one copy: the module itself, and the name."""


def isolated(torch: Any, module: Any, state: Sequence[str]) -> Callable[..., Any]:  # noqa: ANN401
    """Return a function that calls a copy of `module` in its first state.

    Args:
        torch: the library.
        module: TorchScript, or a module of a program.
        state: names of the attributes that a call changes, with paths or in any inner module; all
            of the module is copied for each call where an attribute is not found or cannot be set.
    """
    state_paths = _state_paths(module, state)
    if state_paths:
        calls = _Calls(torch, module, state_paths)
        try:
            calls.add()
        except (RuntimeError, TypeError, AttributeError):  # such as for an attribute of the class
            state_paths = ()
        else:
            return calls

    def call(*tensors: Any) -> Any:  # noqa: ANN401
        return copy.deepcopy(module)(*tensors)

    return call


def _state_paths(module: Any, state: Sequence[str]) -> StatePaths:  # noqa: ANN401
    inner, found = dict(module.named_modules()), []
    for each in state:
        path, _, name = each.rpartition(".")
        paths = [path] if path else [path for path, part in inner.items() if hasattr(part, name)]
        if not paths:
            return ()
        found += [(path, name) for path in paths]
    return found


class _Calls:
    """Calls copies of one module; in any thread."""

    def __init__(self, torch: Any, module: Any, state_paths: StatePaths) -> None:  # noqa: ANN401
        self._torch = torch
        self._module = module
        self._state_paths = state_paths
        self._state = [getattr(part, name) for part, name in _holders(module, state_paths)]
        self._apart = _are_apart(torch, self._state)
        self._idle: deque[tuple[Any, Holders]] = deque()

    def __call__(self, *tensors: Any) -> Any:  # noqa: ANN401
        try:
            module, holders = self._idle.pop()
        except IndexError:
            module, holders = self._copy()
        try:
            return module(*tensors)
        finally:
            self._begin(holders)
            self._idle.append((module, holders))

    def add(self) -> None:
        """Make a copy for the first call."""
        self._idle.append(self._copy())

    def _copy(self) -> tuple[Any, Holders]:
        # Tensors made in the mode of the calls could not be changed out of it.
        with self._torch.inference_mode(mode=False):
            module = copy.deepcopy(self._module)
            for each in (self._torch.nn.Module.parameters, self._torch.nn.Module.buffers):
                for own, shared in zip(each(module), each(self._module), strict=True):
                    own.data = shared.data
            holders = _holders(module, self._state_paths)
            self._begin(holders)
        return module, holders

    def _begin(self, holders: Holders) -> None:
        """Set the first state, in tensors of its own: outputs may show those of the call before."""
        state = self._state
        if not self._apart:
            state = copy.deepcopy(state)  # together, since some may show the same memory
        for (part, name), value in zip(holders, state, strict=True):
            own = self._apart and isinstance(value, self._torch.Tensor)
            setattr(part, name, value.clone() if own else value)


def _are_apart(torch: Any, state: Sequence[Any]) -> bool:  # noqa: ANN401
    """Tell whether all are numbers, or tensors that share no memory: `clone` copies them sooner."""
    plain = [each for each in state if type(each) is torch.Tensor and not each.requires_grad]
    tensors = [each for each in plain if each.layout is torch.strided]
    memory = [at for each in tensors if (at := each.untyped_storage().data_ptr())]
    numbers = [each for each in state if isinstance(each, int | float)]
    return len(tensors) + len(numbers) == len(state) and len(set(memory)) == len(memory)


def _holders(module: Any, state_paths: StatePaths) -> Holders:  # noqa: ANN401
    inner = dict(module.named_modules())
    return [(inner[path], name) for path, name in state_paths]
