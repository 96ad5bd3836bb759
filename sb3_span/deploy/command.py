"""``sb3-span export``."""

from pathlib import Path

from gymnasium.envs.registration import EnvSpec

from sb3_span.atomic_files import default_output
from sb3_span.deploy.export import export_c, export_onnx
from sb3_span.deploy.observations import RecordingError
from sb3_span.deploy.verify import Verification
from sb3_span.saved import env_name, env_of, find_agent, load_trained
from sb3_span.saved.find import label_of
from sb3_span.saved.normalization import describe
from sb3_span.saved.shared_file import ENDING, load_shared, save_shared


def export_model(
    model: str,
    form: str,
    output: Path | None = None,
    vecnormalize: Path | None = None,
    env: str | None = None,
    int8: bool = False,
    name: str = "policy",
) -> None:
    """
    Export a trained policy and print the result of the check.

    :param model: A model's zip, a folder of the Zoo or of a study's run, or the short name of an agent that comes with the
        package; unpickled, so only one that you trust
    :param form: "c", "onnx" or "safetensors"
    :param output: Folder for the result; None for a new one with the name of the model or of its run's folder
    :param vecnormalize: File with VecNormalize's statistics, or the word "none"; None uses the one next to the model
    :param env: The environment to record observations from; None uses that of the Zoo's or study's run
    :param int8: Store the weights of C code in bytes
    :param name: Name of the files, functions and macros of C code
    """
    if int8 and form != "c":
        raise ValueError("--int8 is for --format c; other formats keep the weights in single precision.")
    if name != "policy" and form != "c":
        raise ValueError("--name is for --format c; you can rename other files.")
    file = find_agent(model)
    if output is None:
        output = default_output(Path(f"{label_of(model, file)}-{form}"))
    trained = load_trained(file, vecnormalize)
    known = env or env_of(file)
    if form == "safetensors":
        target = output / f"policy{ENDING}"
        save_shared(trained.policy, target, trained.vecnormalize, None if known is None else env_name(known))
        load_shared(target)
        seen = describe(file, trained.vecnormalize_file)
        print(f"{type(trained.policy).__name__}, {seen}; loading it executes nothing.\nWritten: {target}")
        return
    if known is None:
        print("The environment is not known: checking with random observations only. Name it with --env to use its own too.")

    def export(env: EnvSpec | str | None) -> Verification:
        if form == "c":
            return export_c(trained.policy, output, trained.vecnormalize, env, int8, name)
        return export_onnx(trained.policy, output, trained.vecnormalize, env)

    try:
        verification = export(known)
    except RecordingError as problem:
        if env is not None:
            raise ValueError(f"--env {env}: {problem}") from problem
        print(f"Checking with random observations only: {problem}")
        verification = export(None)
    files = [f"{name}.h", f"{name}.c"] if form == "c" else ["policy.onnx"]
    written = ", ".join(str(output / file) for file in files)
    seen = describe(file, trained.vecnormalize_file)
    print(f"{type(trained.policy).__name__}, {seen}: {verification}.\nWritten: {written}")
