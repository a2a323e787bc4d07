"""Isolates the requests of a PyTorch module with state: each begins with the state of the file.

A call gets a copy of the module to itself, whose weights all copies share; only the state is copied
for each call, and of that only what the call before changed. Copies are kept for later calls, as
many as run at a time.
"""

import copy
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

    def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        return copy.deepcopy(module)(*given, **named)

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


@dataclass
class _Copy:
    """A copy of a module.

    Attributes:
        module: the copy.
        holders: its attributes that hold state.
        begun: the tensors of its first state, each with the version that PyTorch counts.
    """

    module: Any
    holders: Holders
    begun: list[tuple[Any, int]] = field(default_factory=list)


class _Calls:
    """Calls copies of one module; in any thread."""

    def __init__(self, torch: Any, module: Any, state_paths: StatePaths) -> None:  # noqa: ANN401
        self._torch = torch
        self._module = module
        self._state_paths = state_paths
        self._state = [getattr(part, name) for part, name in _holders(module, state_paths)]
        self._apart = _are_apart(torch, self._state)
        self._idle: deque[_Copy] = deque()

    def __call__(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            own = self._idle.pop()
        except IndexError:
            own = self._copy()
        answer = None
        try:
            answer = own.module(*given, **named)
            return answer
        finally:
            self._begin(own, answer)
            self._idle.append(own)

    def add(self) -> None:
        """Make a copy for the first call."""
        self._idle.append(self._copy())

    def _copy(self) -> _Copy:
        # Tensors made in the mode of the calls could not be changed out of it.
        with self._torch.inference_mode(mode=False):
            module = copy.deepcopy(self._module)
            for each in (self._torch.nn.Module.parameters, self._torch.nn.Module.buffers):
                for own, shared in zip(each(module), each(self._module), strict=True):
                    own.data = shared.data
        made = _Copy(module, _holders(module, self._state_paths))
        self._begin(made)
        return made

    def _begin(self, own: _Copy, answer: Any = None) -> None:  # noqa: ANN401
        """Set the first state, in tensors of its own: outputs may show those of the call before.

        Weights often count as state, since PyTorch cannot tell that nothing changes them, as those
        of `torch.nn.Transformer`. A tensor that the call left alone stays.
        """
        # PyTorch counts the changes of tensors that are made out of the mode of the calls.
        with self._torch.inference_mode(mode=False):
            if not self._apart:  # copied together, since some may show the same memory
                copies = copy.deepcopy(self._state)
                for (part, name), value in zip(own.holders, copies, strict=True):
                    setattr(part, name, value)
                return
            shown = {each.data_ptr() for each in _storages(self._torch, answer)}
            begun = own.begun or [(None, 0)] * len(own.holders)
            own.begun = [
                each if self._is_first(holder, *each, shown) else self._set(holder, value)
                for holder, value, each in zip(own.holders, self._state, begun, strict=True)
            ]

    def _is_first(
        self,
        holder: tuple[Any, str],
        first: Any,  # noqa: ANN401
        version: int,
        shown: Collection[int],
    ) -> bool:
        """Tell whether an attribute is its first tensor, unchanged, and no output shows it."""
        now = getattr(*holder)
        if now is not first or not isinstance(now, self._torch.Tensor) or now._version != version:
            return False
        return now.untyped_storage().data_ptr() not in shown

    def _set(self, holder: tuple[Any, str], value: object) -> tuple[Any, int]:
        if not isinstance(value, self._torch.Tensor):
            setattr(*holder, value)
            return None, 0
        setattr(*holder, value.detach().clone().requires_grad_(value.requires_grad))
        made = getattr(*holder)
        return made, made._version


def _storages(torch: Any, given: Any) -> Iterator[Any]:  # noqa: ANN401
    if isinstance(given, torch.Tensor):
        if given.layout is torch.strided:
            yield given.untyped_storage()
    elif isinstance(given, Mapping | list | tuple):
        for each in given.values() if isinstance(given, Mapping) else given:
            yield from _storages(torch, each)


def _are_apart(torch: Any, state: Sequence[Any]) -> bool:  # noqa: ANN401
    """Tell whether all are numbers, or tensors that share no memory: `clone` copies them sooner."""
    plain = [each for each in state if type(each) is torch.Tensor]
    tensors = [each for each in plain if each.layout is torch.strided]
    memory = [at for each in tensors if (at := each.untyped_storage().data_ptr())]
    numbers = [each for each in state if isinstance(each, int | float)]
    return len(tensors) + len(numbers) == len(state) and len(set(memory)) == len(memory)


def _holders(module: Any, state_paths: StatePaths) -> Holders:  # noqa: ANN401
    inner = dict(module.named_modules())
    return [(inner[path], name) for path, name in state_paths]
