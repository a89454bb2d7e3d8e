"""What mypy must refuse, one mistake a line: each carries the error code that it is to get. Nothing here is called."""

import mixtailor as mt


def mistakes() -> None:
    mt.Krum(1, 3.0)  # expect: call-arg
    mt.Krum(f="two")  # expect: arg-type
    mt.NNM(f=1) >> 5  # expect: operator
    mt.Comed().aggregate([[1.0]], on_fault="ignore")  # expect: arg-type
    mt.Comed()([[1.0]], worker=["a"])  # expect: call-arg
    mt.Comed()([[1.0]], round="first")  # expect: arg-type
    mt.make_rule(5)  # expect: arg-type
    mt.MixTailor([mt.Comed()], entropy=7)  # expect: arg-type
    mt.MixTailor([mt.Comed()], seed=1)  # expect: arg-type
    mt.NNM(f=1)([[1.0]])  # expect: operator
