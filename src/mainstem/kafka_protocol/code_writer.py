"""Builds the source of a Python function line by line; it is compiled once and run often."""

from collections.abc import Mapping


class Source:
    """The body of a generated function, and the constants it uses."""

    def __init__(self, constants: Mapping[str, object]) -> None:
        self.constants = dict(constants)
        self._lines: list[str] = []
        self._depth = 1
        self._variables = 0

    def add(self, line: str) -> None:
        """Append a line to the current block."""
        self._lines.append("    " * self._depth + line)

    def open(self, line: str) -> None:
        """Append a line that opens a block."""
        self.add(line)
        self._depth += 1

    def close(self) -> None:
        """Close the innermost block."""
        self._depth -= 1

    def variable(self) -> str:
        """Return a variable name that is not used yet."""
        self._variables += 1
        return f"v{self._variables}"

    def constant(self, value: object) -> str:
        """Define a constant with this value; return its name in the source."""
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def text(self, name: str, parameters: str) -> str:
        """Return the source of the function."""
        return "\n".join([f"def {name}({parameters}):", *self._lines, ""])

    def compile(self, name: str, parameters: str) -> object:
        """Compile the source and return the function, which the caller casts to its type."""
        code = compile(self.text(name, parameters), f"<{name}>", "exec")
        exec(code, self.constants)
        return self.constants[name]
