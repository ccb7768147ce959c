from typing import Any, final

from tensor.tape.nodes import Node

@final
class PendingGradient:
    @property
    def node(self) -> Node: ...
    value: Any
