from collections.abc import Callable

from connect_four.game import Floats

def search(
    roots: bytes,
    evaluators: tuple[Callable[[bytes], Floats], ...],
    simulations: int,
    noise: Floats | None,
    /,
) -> bytes: ...
