"""The tasks of the Adroit hand: length of an episode, and D4RL's scores."""

import numpy as np

# Steps of an episode in D4RL. Gymnasium-Robotics has 200 for the pen too, and data sets have those of the recording.
EPISODE_STEPS = {
    "AdroitHandDoor-v1": 200,
    "AdroitHandHammer-v1": 200,
    "AdroitHandPen-v1": 100,
    "AdroitHandRelocate-v1": 200,
}

# By the environment, not by a data set's name: the mean return of a random policy and of D4RL's expert.
REFERENCE_SCORES: dict[str, tuple[float, float]] = {
    "AdroitHandDoor-v1": (-56.512833, 2880.5693087298737),
    "AdroitHandHammer-v1": (-274.856578, 12794.134825156867),
    "AdroitHandPen-v1": (96.262799, 3076.8331017826877),
    "AdroitHandRelocate-v1": (-6.425911, 4233.877797728884),
}


def normalized_score(env_id: str, returns: np.ndarray | float) -> np.ndarray:
    """
    :param env_id: The environment in which the returns were made, such as ``"AdroitHandDoor-v1"``
    :param returns: Returns of episodes, of any shape
    :return: Scores of the same shape: 0 for a random policy, 100 for an expert
    """
    if env_id not in REFERENCE_SCORES:
        raise ValueError(f"There are no reference scores for {env_id!r}, only for {list(REFERENCE_SCORES)}.")
    low, high = REFERENCE_SCORES[env_id]
    return 100 * (np.asarray(returns) - low) / (high - low)
