import pytest

from eec.errors import UserError
from eec.methods.options import PUBLISHED, ClassifierOptions, EECOptions
from eec.methods.registry import METHODS, choose_options, find_method, make_method
from eec.nets.classifiers import CLASSIFIERS
from eec.training.recipes import RECIPES
from eec.training.runtime import Runtime


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("net", "vgg", "auto, tiny, small, dcgan, wgan, resnet18"),
        ("recipe", "slow", "fast, brief, paper"),
        ("codec", "frosted", "frozen, per-task, warm, retrained"),
        ("new_images", "none", "decoded, real, both"),
        ("see", "blurred", "real, coded"),
        ("output", "relu", "tanh, norm"),
        ("content_scale", "loud", "normalised, raw"),
    ],
)
def test_an_unknown_choice_is_refused_and_the_known_are_listed(
    name: str, value: str, known: str
) -> None:
    with pytest.raises(UserError, match=f"{name} is '{value}': choose one of {known}"):
        choose_options("eec", **{name: value})


@pytest.mark.parametrize("content", [-0.1, 1.1, float("nan")])
def test_the_content_share_lies_between_0_and_1(content: float) -> None:
    with pytest.raises(UserError, match=r"content is .*: use a share from 0 to 1"):
        EECOptions(content=content)


@pytest.mark.parametrize("content", [0, 1])
def test_the_content_share_may_be_nothing_or_all(content: float) -> None:
    assert EECOptions(content=content).content == content


@pytest.mark.parametrize("codec", ["per-task", "warm"])
def test_seeing_test_images_coded_needs_one_codec_for_all(codec: str) -> None:
    with pytest.raises(UserError, match="see=coded needs one codec"):
        choose_options("eec", see="coded", codec=codec)
    with pytest.raises(UserError, match="see=coded needs one codec"):
        choose_options("eec-published", see="coded")


@pytest.mark.parametrize("codec", ["frozen", "retrained"])
def test_seeing_test_images_coded_goes_with_a_single_codec(codec: str) -> None:
    assert choose_options("eec", see="coded", codec=codec) == EECOptions(see="coded", codec=codec)  # type: ignore[arg-type]


def test_the_published_forms_are_the_papers() -> None:
    published, eecs = find_method("eec-published").options, find_method("eecs").options
    assert isinstance(published, EECOptions) and isinstance(eecs, EECOptions)
    assert published == PUBLISHED
    assert (published.net, published.codec, published.new_images) == ("dcgan", "per-task", "real")
    assert (published.code, published.output, published.see) == ("16x4x4", "norm", "real")
    assert (published.content, published.content_scale, published.decay) == (0.7, "raw", True)
    assert eecs == choose_options("eec-published", codec="retrained")


def test_options_that_are_none_leave_the_defaults() -> None:
    assert choose_options("eec", codec=None, code="8x4x4") == EECOptions(code="8x4x4")
    assert choose_options("finetune", codec=None) == ClassifierOptions()


def test_an_option_that_a_method_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match="finetune has no option codec: it has net, recipe"):
        choose_options("finetune", codec="frozen")


def test_an_unknown_method_is_refused_and_the_known_are_listed(cpu: Runtime) -> None:
    for ask in (find_method, choose_options):
        with pytest.raises(UserError, match=r"'ewc'.*eec, eec-published, eecs, finetune, joint"):
            ask("ewc")
    with pytest.raises(UserError, match="'ewc'"):
        make_method("ewc", ClassifierOptions(), 0, cpu)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_made_and_knows_its_name(name: str, cpu: Runtime) -> None:
    options = find_method(name).options
    method = make_method(name, options, 5, cpu)
    assert (method.name, method.options, method.seed) == (name, options, 5)
    assert method.strict == (name not in ("joint", "icarl") and not name.startswith("replay"))


@pytest.mark.parametrize("net", CLASSIFIERS)
def test_every_classifier_can_be_chosen(net: str) -> None:
    assert choose_options("finetune", net=net).net == net


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_can_be_chosen(recipe: str) -> None:
    assert choose_options("finetune", recipe=recipe).recipe == recipe
