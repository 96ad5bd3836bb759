"""The process plants: which of pcgym's models, its inputs, what is controlled, between which bounds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """
    A quantity of a plant.

    :param name: The model's name for it
    :param low: Its lowest value: of an input or a set point the lowest that is allowed, of a state the end of its scale
    :param high: The same at the other end
    :param unit: For the axes of pictures
    """

    name: str
    low: float
    high: float
    unit: str = ""

    @property
    def width(self) -> float:
        return self.high - self.low


@dataclass(frozen=True)
class Plant:
    """
    :param env_id: The environment's id
    :param model: The class in ``pcgym.model_classes``
    :param states: All states of the model; all are measured
    :param inputs: What the controller sets
    :param set_points: The controlled states, as many as inputs, and where their set points are drawn
    :param upper_limits: States that should stay below a value
    :param sample_time: Time between two actions, in the model's unit
    :param time_unit: That unit
    :param substeps: Steps of the integrator (Runge-Kutta of fourth order) in a sample time
    :param guess: A steady state, from which those of other set points are found: states, then inputs
    :param floor: States below it count as the floor, in the model's equations: a tank cannot be emptier than empty
    :param pairing: For each input the set point that its PID controller follows
    :param directions: For each input 1 if raising it raises that quantity, -1 if it lowers it
    """

    env_id: str
    model: str
    states: tuple[Range, ...]
    inputs: tuple[Range, ...]
    set_points: tuple[Range, ...]
    upper_limits: dict[str, float]
    sample_time: float
    time_unit: str
    substeps: int
    guess: tuple[float, ...]
    floor: float | None = None
    pairing: tuple[int, ...] = (0, 1)
    directions: tuple[int, ...] = (1, 1)

    def index(self, state: str) -> int:
        return [each.name for each in self.states].index(state)


# An exothermic reaction in a cooled tank. Between about 0.33 and 0.75 mol/l the steady state is unstable: without control the
# reactor goes out or runs away.
REACTOR = Plant(
    env_id="SPANReactor-v0",
    model="cstr",
    states=(Range("Ca", 0.0, 1.0, "mol/l"), Range("T", 300.0, 400.0, "K")),
    inputs=(Range("Tc", 285.0, 315.0, "K"),),
    set_points=(Range("Ca", 0.45, 0.9, "mol/l"),),
    upper_limits={"T": 365.0},
    sample_time=0.1,
    time_unit="min",
    substeps=32,
    guess=(0.65, 341.5, 302.5),
    pairing=(0,),
    directions=(-1,),
)
# A solute goes from a liquid into a gas that flows the other way, through five stages.
EXTRACTION = Plant(
    env_id="SPANExtraction-v0",
    model="multistage_extraction",
    states=tuple(Range(f"{phase}{stage}", 0.0, 0.8, "kg/m³") for stage in range(1, 6) for phase in "XY"),
    inputs=(Range("L", 20.0, 200.0, "m³/h"), Range("G", 20.0, 200.0, "m³/h")),
    set_points=(Range("X5", 0.15, 0.3, "kg/m³"), Range("Y1", 0.35, 0.55, "kg/m³")),
    upper_limits={"Y1": 0.6},
    sample_time=0.05,
    time_unit="h",
    substeps=8,
    guess=(0.55, 0.41, 0.48, 0.35, 0.41, 0.28, 0.33, 0.21, 0.24, 0.13, 100.0, 100.0),
    directions=(1, -1),
)
# Two pumps fill four tanks; most of what each delivers reaches the lower tank of the other one by way of an upper tank.
FOUR_TANKS = Plant(
    env_id="SPANFourTanks-v0",
    model="four_tank",
    states=tuple(Range(f"h{tank}", 0.0, 0.8, "m") for tank in range(1, 5)),
    inputs=(Range("v1", 0.0, 10.0, "V"), Range("v2", 0.0, 10.0, "V")),
    set_points=(Range("h1", 0.1, 0.25, "m"), Range("h2", 0.1, 0.25, "m")),
    upper_limits={"h3": 0.65, "h4": 0.4},
    sample_time=15.0,
    time_unit="s",
    substeps=4,
    guess=(0.16, 0.17, 0.32, 0.18, 7.0, 6.6),
    floor=1e-6,
    pairing=(1, 0),
)

PLANTS = {plant.env_id: plant for plant in (REACTOR, EXTRACTION, FOUR_TANKS)}


def find_plant(env_id: str) -> Plant:
    """
    :param env_id: One of our ids
    """
    if env_id not in PLANTS:
        raise ValueError(f"There is no process plant {env_id!r}; choose one of {', '.join(PLANTS)}.")
    return PLANTS[env_id]
