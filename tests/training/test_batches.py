from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import pad

from eec.training.batches import Batches, Detail, smaller, to_float, to_uint8


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(count: int, channels: int = 1, height: int = 6, width: int = 7, seed: int = 0) -> Tensor:
    shape = (count, channels, height, width)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=seeded(seed))


def test_every_grey_level_survives_the_way_there_and_back() -> None:
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    floats = to_float(levels)
    assert floats.dtype == torch.float32
    assert (floats.min().item(), floats.max().item()) == (-1, 1)
    assert torch.equal(to_uint8(floats), levels)


def test_pixels_beyond_the_range_are_clamped_not_wrapped() -> None:
    beyond = torch.tensor([-1e9, -1.01, -1.0, 0.0, 1.0, 1.01, 300.0])
    assert to_uint8(beyond).tolist() == [0, 0, 0, 128, 255, 255, 255]


def test_converting_leaves_the_original_alone() -> None:
    floats = torch.tensor([-2.0, 0.5])
    to_uint8(floats)
    assert floats.tolist() == [-2.0, 0.5]


@pytest.mark.parametrize("channels", [1, 3])
def test_without_augmentation_a_batch_is_exactly_the_images(channels: int) -> None:
    images = noise(5, channels)
    batch = Batches(images).take(torch.tensor([3, 0, 3]), seeded(0))
    assert torch.equal(batch, to_float(images[[3, 0, 3]]))


@pytest.mark.parametrize("crop", [0, 2])
@pytest.mark.parametrize("flip", [False, True])
def test_batches_lie_in_channels_last_memory(crop: int, flip: bool) -> None:
    batch = Batches(noise(4, 3), pad=crop, flip=flip).take(torch.arange(4), seeded(0))
    assert batch.shape == (4, 3, 6, 7)
    assert batch.is_contiguous(memory_format=torch.channels_last)


def windows(image: Tensor, crop: int) -> list[Tensor]:
    """Every window of the image, padded with black by `crop`, that has its size."""
    height, width = image.shape[1:]
    padded = pad(image, (crop, crop, crop, crop))
    sides = range(2 * crop + 1)
    return [padded[:, y : y + height, x : x + width] for y in sides for x in sides]


def is_among(image: Tensor, others: list[Tensor]) -> bool:
    return any(torch.equal(image, other) for other in others)


@given(
    crop=st.integers(1, 4),
    channels=st.sampled_from([1, 3]),
    flip=st.booleans(),
    seed=st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=30)
def test_each_image_is_a_window_of_the_padded_one(
    crop: int, channels: int, flip: bool, seed: int
) -> None:
    images = noise(3, channels, seed=seed)
    index = torch.tensor([2, 1, 0, 2])
    taken = to_uint8(Batches(images, pad=crop, flip=flip).take(index, seeded(seed)))
    for picture, i in zip(taken, index, strict=True):
        allowed = windows(images[i], crop)
        if flip:
            allowed += [window.flip(2) for window in allowed]
        assert is_among(picture, allowed)


def test_crops_go_everywhere() -> None:
    image = noise(1)
    taken = to_uint8(Batches(image, pad=1).take(torch.zeros(300, dtype=torch.long), seeded(0)))
    assert all(is_among(window, list(taken)) for window in windows(image[0], 1))


def test_flip_mirrors_about_half_and_moves_nothing() -> None:
    image = noise(1)
    taken = to_uint8(Batches(image, flip=True).take(torch.zeros(200, dtype=torch.long), seeded(0)))
    mirrored = sum(torch.equal(picture, image[0].flip(2)) for picture in taken)
    plain = sum(torch.equal(picture, image[0]) for picture in taken)
    assert mirrored + plain == 200 and 70 < mirrored < 130


def test_the_same_seed_gives_the_same_batch_and_another_another() -> None:
    batches, index = Batches(noise(20), pad=3, flip=True), torch.arange(20)
    first = batches.take(index, seeded(1))
    assert torch.equal(first, batches.take(index, seeded(1)))
    assert not torch.equal(first, batches.take(index, seeded(2)))


def test_augmentation_is_not_frozen_from_one_epoch_to_the_next() -> None:
    batches, index, generator = Batches(noise(20), pad=3), torch.arange(20), seeded(1)
    epochs = [batches.take(index, generator) for _ in range(3)]
    assert not torch.equal(epochs[0], epochs[1]) and not torch.equal(epochs[1], epochs[2])


def test_real_digits_come_out_as_they_went_in(digit_images: Callable[..., Tensor]) -> None:
    images = digit_images(3, 5)
    batches = Batches(images)
    assert len(batches) == 5
    assert torch.equal(to_uint8(batches.take(torch.arange(5), seeded(0))), images)


def test_a_window_smaller_than_the_image_is_cut_everywhere_in_it() -> None:
    image = noise(1, 3, 6, 7)
    taken = to_uint8(Batches(image, window=5).take(torch.zeros(300, dtype=torch.long), seeded(0)))
    whole = {image[0, :, y : y + 5, x : x + 5].numpy().tobytes() for y in (0, 1) for x in range(3)}
    assert {cut.numpy().tobytes() for cut in taken} == whole


def test_images_are_turned_each_in_its_own_way(digit_images: Callable[..., Tensor]) -> None:
    images = digit_images(7, 1).repeat(40, 1, 1, 1)
    index = torch.arange(40)
    plain = Batches(images).take(index, seeded(0))
    turned = Batches(images, turn=12).take(index, seeded(0))
    assert turned.shape == plain.shape and turned.dtype == plain.dtype
    assert turned.is_contiguous(memory_format=torch.channels_last)
    assert turned.min() >= -1 and turned.max() <= 1
    assert len(turned.unique(dim=0)) == 40
    # Still the same digit: ink comes neither nor goes, but for what a stretch makes of it.
    ink, before = ((batch + 1).sum((1, 2, 3)) for batch in (turned, plain))
    assert ((ink / before - 1).abs() < 0.3).all()
    assert ink.mean().item() == pytest.approx(before.mean().item(), rel=0.05)
    again = Batches(images, turn=12).take(index, seeded(0))
    assert torch.equal(turned, again)


def test_what_comes_in_from_outside_is_black() -> None:
    white = torch.full((8, 1, 16, 16), 255, dtype=torch.uint8)
    turned = Batches(white, turn=45).take(torch.arange(8), seeded(0))
    assert (turned[:, 0, 8, 8] == 1).all()
    assert turned[:, :, 0, 0].min() == -1


def test_an_epoch_has_all_images_once_in_a_new_order() -> None:
    batches, random = Batches(noise(9)), seeded(0)
    first, second = batches.epoch(random).tolist(), batches.epoch(random).tolist()
    assert sorted(first) == sorted(second) == list(range(9)) and first != second
    assert len(batches) == 9


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 99))
def test_an_epoch_draws_some_of_the_images_anew(most: int, others: int, seed: int) -> None:
    drawn = torch.arange(others, others + 8)  # the rest is in every epoch
    batches, random = Batches(noise(others + 8), drawn=(drawn, most)), seeded(seed)
    epochs = [batches.epoch(random).tolist() for _ in range(200)]
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch) == len(batches) == others + min(most, 8)
        assert set(range(others)) <= set(epoch)
    assert set().union(*epochs) == set(range(others + 8))  # over time, all are shown


def test_smaller_images_show_the_same_and_tiny_ones_stay(
    digit_images: Callable[..., Tensor],
) -> None:
    images = to_float(digit_images(3, 4)).repeat_interleave(4, 2).repeat_interleave(4, 3)
    assert min(images.shape[2:]) >= 24
    made = smaller(images)
    assert list(made.shape[2:]) == [3 * side // 4 for side in images.shape[2:]]
    assert made.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(made.mean((1, 2, 3)), images.mean((1, 2, 3)), atol=0.02)
    small = torch.rand(2, 1, 23, 40)
    assert smaller(small) is small


# --- detail that is lent ---


def lent(images: Tensor, lost: Tensor, wanting: Tensor, index: Tensor, crop: int = 0) -> Tensor:
    batches = Batches(images, pad=crop, detail=Detail(lost, wanting))
    return to_uint8(batches.take(index, seeded(3)))


def test_detail_is_lent_half_of_the_time_to_those_that_want_it_and_drawn_anew() -> None:
    images, pieces = torch.full((2, 1, 4, 4), 100, dtype=torch.uint8), [-7, 3, 20]
    lost = torch.tensor(pieces, dtype=torch.int8).view(3, 1, 1, 1).expand(3, 1, 4, 4)
    index = torch.arange(2).repeat(1000)
    taken = lent(images, lost, torch.tensor([False, True]), index).int()[:, 0]
    assert (taken == taken[:, :1, :1]).all()
    added = taken[:, 0, 0] - 100
    assert set(added[0::2].tolist()) == {0}
    shares = [(added[1::2] == piece).float().mean().item() for piece in (0, *pieces)]
    assert shares == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6], abs=0.05)


def test_detail_stays_within_the_range_of_pixels_and_inside_the_picture() -> None:
    images = torch.tensor([[250]], dtype=torch.uint8).expand(1, 1, 5, 5)
    lost = torch.full((1, 1, 5, 5), 100, dtype=torch.int8)
    index = torch.zeros(200, dtype=torch.long)
    taken = lent(images, lost, torch.tensor([True]), index, crop=2)
    assert set(taken.unique().tolist()) == {0, 250, 255}  # the margin is as black as ever
    assert all(len(set(image[image > 0].tolist())) == 1 for image in taken)


def test_detail_is_moved_and_mirrored_with_its_picture() -> None:
    images = noise(1, 3) // 2
    lost = (noise(1, 3, seed=1) // 8).to(torch.int8)
    batches = Batches(images, pad=2, flip=True, detail=Detail(lost, torch.tensor([True])))
    taken = to_uint8(batches.take(torch.zeros(60, dtype=torch.long), seeded(0)))
    whole = Batches(torch.cat([images, images + lost.to(torch.uint8)]), pad=2, flip=True)
    allowed = to_uint8(whole.take(torch.arange(2).repeat(3000), seeded(1)))
    assert all((allowed == image).flatten(1).all(1).any() for image in taken)
