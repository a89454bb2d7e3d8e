"""Vector code, written by hand: a page of Python that emits the instructions of an inner loop.

Whether LLVM turns a loop into vector instructions hangs on things no reader sees: an index that might be negative, an
alias check too many, an unroll that spills. The loops that decide the speed are therefore emitted as vectors from the
start. A function marked `@emitted` runs once, while numba compiles the kernel that calls it; its `Lanes` are registers
and their operators append instructions. Integers that are constants in the calling kernel arrive as plain ints and
choose what is emitted, so one function stands for every block shape, power or number of rows.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mixtailor.kernels._numba import cgutils, config, intrinsic, ir, llvm, types

__all__ = ["DOUBLES", "GROUP", "REGISTER", "Code", "Data", "Double", "Element", "Lanes", "Word", "emitted"]


def _features() -> str:
    if config.CPU_FEATURES is not None:
        return str(config.CPU_FEATURES)
    if config.CPU_NAME not in (None, "host"):
        return ""
    return str(llvm.get_host_cpu_features().flatten())


_WIDE = "+avx512f" in _features()
REGISTER = 64 if _WIDE else 32  # bytes
DOUBLES = REGISTER // 8  # float64 numbers in a vector; float32 rows are read by as many, and widened
GROUP = 4 if _WIDE else 3  # rows a side of a block of pairs: 16 sums and 8 rows fit 32 registers, 9 and 6 fit 16

# What an emitted function gets for an argument: see `emitted`.
Word: TypeAlias = Any
Double: TypeAlias = Any
Data: TypeAlias = Any
Element: TypeAlias = Any

_DOUBLE, _FLOAT, _WORD = ir.DoubleType(), ir.FloatType(), ir.IntType(64)
_REORDER = ("reassoc", "contract", "nsz")


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector register while its code is being emitted."""

    code: Code
    value: Any

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return int(self.value.type.count)

    @property
    def element(self) -> Any:
        """The type of the numbers in the lanes."""
        return self.value.type.element

    def __add__(self, other: Lanes) -> Lanes:
        return self._with(self.code.builder.fadd(self.value, other.value))

    def __sub__(self, other: Lanes) -> Lanes:
        return self._with(self.code.builder.fsub(self.value, other.value))

    def __mul__(self, other: Lanes) -> Lanes:
        return self._with(self.code.builder.fmul(self.value, other.value))

    def __truediv__(self, other: Lanes) -> Lanes:
        return self._with(self.code.builder.fdiv(self.value, other.value))

    def __lt__(self, other: Lanes) -> Lanes:
        return self._with(self.code.builder.fcmp_ordered("<", self.value, other.value))

    def __abs__(self) -> Lanes:
        return self._call("llvm.fabs", self)

    def root(self) -> Lanes:
        """The square root."""
        return self._call("llvm.sqrt", self)

    def times_plus(self, factor: Lanes, addend: Lanes) -> Lanes:
        """``self * factor + addend``, rounded once."""
        return self._call("llvm.fma", self, factor, addend)

    def smaller(self, other: Lanes) -> Lanes:
        """The minimum; LLVM knows this comparison as one instruction. Undecided where one is NaN."""
        return (self < other).choose(self, other)

    def larger(self, other: Lanes) -> Lanes:
        """The maximum."""
        return (other < self).choose(self, other)

    def choose(self, yes: Lanes, no: Lanes) -> Lanes:
        """`yes` where this comparison holds, else `no`."""
        return self._with(self.code.builder.select(self.value, yes.value, no.value))

    def widened(self) -> Lanes:
        """As float64."""
        if self.value.type.element == _DOUBLE:
            return self
        return self._with(self.code.builder.fpext(self.value, ir.VectorType(_DOUBLE, self.value.type.count)))

    def narrowed(self, element: Any) -> Lanes:
        """As numbers of type `element`."""
        if self.value.type.element == element:
            return self
        return self._with(self.code.builder.fptrunc(self.value, ir.VectorType(element, self.value.type.count)))

    def bits(self) -> Lanes:
        """The same bits as integers."""
        width = 64 if self.value.type.element == _DOUBLE else 32
        return self._with(
            self.code.builder.bitcast(self.value, ir.VectorType(ir.IntType(width), self.value.type.count))
        )

    def number(self) -> Lanes:
        """The same bits as float64 (or float32) again: the inverse of `bits`."""
        element = _DOUBLE if self.value.type.element.width == 64 else _FLOAT
        return self._with(self.code.builder.bitcast(self.value, ir.VectorType(element, self.value.type.count)))

    def integer(self, operation: str, constant: int) -> Lanes:
        """An operation of integers with a constant: "add", "and_", "or_", "shl", "lshr"."""
        kind = self.value.type
        return self._with(getattr(self.code.builder, operation)(self.value, ir.Constant(kind, [constant] * kind.count)))

    def larger_bits(self, other: Lanes) -> Lanes:
        """The maximum of two registers of integers, unsigned."""
        builder = self.code.builder
        return self._with(builder.select(builder.icmp_unsigned(">", self.value, other.value), self.value, other.value))

    def total(self) -> Any:
        """The sum over the lanes, a scalar."""
        kind = self.value.type
        name = f"llvm.vector.reduce.fadd.v{kind.count}{_short(kind.element)}"
        reduce = self.code.function(name, kind.element, [kind.element, kind])
        return self.code.builder.call(reduce, [kind.element(-0.0), self.value], fastmath=_REORDER)

    def largest_bits(self) -> Any:
        """The unsigned maximum over the lanes, a scalar."""
        kind = self.value.type
        name = f"llvm.vector.reduce.umax.v{kind.count}i{kind.element.width}"
        return self.code.builder.call(self.code.function(name, kind.element, [kind]), [self.value])

    def _with(self, value: Any) -> Lanes:
        return Lanes(self.code, value)

    def _call(self, name: str, *operands: Lanes) -> Lanes:
        kind = self.value.type
        function = self.code.function(f"{name}.v{kind.count}{_short(kind.element)}", kind, [kind] * len(operands))
        return self._with(self.code.builder.call(function, [operand.value for operand in operands]))


def _short(element: Any) -> str:
    return "f64" if element == _DOUBLE else "f32"


@dataclass(frozen=True, slots=True)
class Code:
    """Where instructions go: loads, stores, variables and loops."""

    builder: Any

    def function(self, name: str, returns: Any, operands: Sequence[Any]) -> Any:
        """One of LLVM's own functions, by name."""
        return cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(returns, operands), name)

    def load(self, address: Any, element: Any, count: int = DOUBLES) -> Lanes:
        """`count` numbers from `address` on, which need not be aligned to more than one of them."""
        pointer = self.builder.inttoptr(address, ir.VectorType(element, count).as_pointer())
        return Lanes(self, self.builder.load(pointer, align=_size(element)))

    def store(self, lanes: Lanes, address: Any) -> None:
        """Write a register to memory."""
        pointer = self.builder.inttoptr(address, lanes.value.type.as_pointer())
        self.builder.store(lanes.value, pointer, align=_size(lanes.value.type.element))

    def constant(self, value: float, element: Any = _DOUBLE, count: int = DOUBLES) -> Lanes:
        """The same number in every lane."""
        return Lanes(self, ir.Constant(ir.VectorType(element, count), [value] * count))

    def spread(self, value: Any, count: int = DOUBLES) -> Lanes:
        """A scalar in every lane."""
        kind = ir.VectorType(value.type, count)
        single = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
        return Lanes(self, self.builder.shuffle_vector(single, single, mask))

    def offset(self, address: Any, step: Any, size: int) -> Any:
        """``address + step * size``; `step` is an int or a register."""
        factor = _WORD(size) if not isinstance(step, int) else None
        return self.builder.add(address, _WORD(step * size) if factor is None else self.builder.mul(step, factor))

    def is_single(self, element: Any) -> bool:
        """Whether numbers of this type are float32."""
        return bool(element == _FLOAT)

    def size(self, element: Any) -> int:
        """The bytes of a number of this type."""
        return _size(element)

    def per_register(self, element: Any) -> int:
        """How many numbers of this type fill a register."""
        return REGISTER // _size(element)

    @property
    def double_type(self) -> Any:
        """The type of a float64."""
        return _DOUBLE

    @property
    def single_type(self) -> Any:
        """The type of a float32."""
        return _FLOAT

    def call(self, function: Any, *values: Any) -> None:
        """Call a function without a result by its address: see `address_of`."""
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        self.builder.call(self.builder.inttoptr(function, kind.as_pointer()), values)

    def word(self, address: Any) -> Any:
        """The 64-bit integer at an address."""
        return self.builder.load(self.builder.inttoptr(address, _WORD.as_pointer()))

    def byte(self, address: Any) -> Any:
        """The byte at an address, as a 64-bit integer."""
        pointer = self.builder.inttoptr(address, ir.IntType(8).as_pointer())
        return self.builder.zext(self.builder.load(pointer), _WORD)

    def double(self, address: Any) -> Any:
        """The float64 at an address."""
        return self.builder.load(self.builder.inttoptr(address, _DOUBLE.as_pointer()))

    def add_double(self, value: Any, address: Any) -> None:
        """``*address += value``."""
        pointer = self.builder.inttoptr(address, _DOUBLE.as_pointer())
        self.builder.store(self.builder.fadd(self.builder.load(pointer), value), pointer)

    def raise_word(self, value: Any, address: Any) -> None:
        """``*address = max(*address, value)``, as unsigned integers."""
        pointer = self.builder.inttoptr(address, _WORD.as_pointer())
        before = self.builder.load(pointer)
        self.builder.store(self.builder.select(self.builder.icmp_unsigned(">", value, before), value, before), pointer)

    def variable(self, lanes: Lanes) -> Variable:
        """A register that a loop changes."""
        slot = cgutils.alloca_once(self.builder, lanes.value.type)
        self.builder.store(lanes.value, slot)
        return Variable(self, slot)

    @contextlib.contextmanager
    def when(self, value: Any, equals: int) -> Iterator[None]:
        """Only if an integer has this value."""
        with self.builder.if_then(self.builder.icmp_signed("==", value, value.type(equals))):
            yield

    @contextlib.contextmanager
    def unless_zero(self, value: Any) -> Iterator[None]:
        """Only if a float64 is not zero."""
        with self.builder.if_then(self.builder.fcmp_unordered("!=", value, value.type(0.0))):
            yield

    @contextlib.contextmanager
    def loop(self, count: Any, start: Any = None) -> Iterator[Any]:
        """A loop from `start`, or 0, to `count`, a register or an int."""
        with cgutils.for_range(self.builder, _WORD(count) if isinstance(count, int) else count, start) as step:
            yield step.index


@dataclass(frozen=True, slots=True)
class Variable:
    """A register that a loop changes: LLVM turns the stack slot into one."""

    code: Code
    slot: Any

    def get(self) -> Lanes:
        """Its value now."""
        return Lanes(self.code, self.code.builder.load(self.slot))

    def set(self, lanes: Lanes) -> None:
        """Give it a new value."""
        self.code.builder.store(lanes.value, self.slot)


def _size(element: Any) -> int:
    return 8 if element == _DOUBLE else 4


def emitted(returns: Any = types.void) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make ``emit(code, *arguments)`` callable from a kernel; the annotations say what `emit` gets of each argument.

    - ``int``: a constant of the calling kernel, as that int;
    - `Word`, `Double`: an integer or float64, as a register;
    - `Data`: an array, as the address of its first element (an array, not an address, keeps the memory alive);
    - `Element`: an array, as the type of its elements.
    """

    def decorate(emit: Callable[..., Any]) -> Callable[..., Any]:
        roles = [role for name, role in emit.__annotations__.items() if name not in ("code", "return")]

        @functools.wraps(emit)  # numba reads the number of arguments from the signature, which this carries over
        def declare(typing_context: Any, *arguments: Any) -> Any:
            kinds = [_KINDS.get(role, kind) for role, kind in zip(roles, arguments, strict=True)]

            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                def given(role: str, kind: Any, value: Any) -> Any:
                    if role == "int":
                        return kind.literal_value
                    if role == "Element":
                        return context.get_data_type(kind.dtype)
                    if role == "Data":
                        return builder.ptrtoint(context.make_array(kind)(context, builder, value).data, _WORD)
                    return value

                result = emit(Code(builder), *map(given, roles, kinds, values))
                return context.get_dummy_value() if result is None else result

            return returns(*kinds), generate

        return intrinsic(prefer_literal=True)(declare)  # type: ignore[no-any-return]  # numba's

    return decorate


_KINDS = {"Word": types.int64, "Double": types.float64}
