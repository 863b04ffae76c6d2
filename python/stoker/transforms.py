# SPDX-License-Identifier: Apache-2.0
"""Transforms as objects, named as torchvision.transforms.v2 names them: what a Loader does in C.

    stoker.Loader(spec, transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize("imagenet")])

Each stands for the text of the same call (str() of it), and the library checks its arguments. Written by
scripts/make_python_transforms.py from the tables of the library.
"""
from __future__ import annotations

from stoker._transform import Compose, CutMix, MixUp, Numbers, Resizing, ToDtype, Transform

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "CutMix",
    "Decode",
    "GaussianBlur",
    "Layout",
    "MixUp",
    "Normalize",
    "Pad",
    "RandAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "ToDtype",
    "Transform",
]


class Decode(Transform):
    """From JPEG or PNG to RGB; done first without being named.

    dct_scaling: auto: a JPEG whose box is at least twice as large as wanted, both ways, is decoded at 1/2, 1/4 or
        1/8, which is faster; over photographs the result is 1 to 2 of 255 levels from that of a full decode in the
        mean (8 in the one with most detail, 56 in a single value), as with Pillow's draft(). off: never. One of
        auto, off. Default: auto.
    exif_orientation: Turn pictures upright as their EXIF orientation says; torchvision does not. Default: false.
    max_pixels: Larger pictures are bad samples. Default: 67108864.
    max_blocks: Blocks of 8 x 8 of all scans of a JPEG, which is the work of decoding it: more are a bad sample.
        Default: 33554432.
    """

    def __init__(self, dct_scaling: str | None = None, exif_orientation: bool | None = None,
                 max_pixels: int | None = None, max_blocks: int | None = None) -> None:
        super().__init__("decode", dct_scaling=dct_scaling, exif_orientation=exif_orientation, max_pixels=max_pixels,
                         max_blocks=max_blocks)


class RandomResizedCrop(Resizing):
    """A box of random area, shape and place, resized to one size.

    size: Pixels of the result: 224 for a square, or HEIGHTxWIDTH.
    scale: Smallest and largest share of the picture's area that the box takes. Default: [0.08, 1.0].
    ratio: Smallest and largest width / height of the box. Default: [0.75, 1.3333333333333333].
    interpolation: Filter of the resize, antialiased as Pillow's; area is its BOX. One of bilinear, bicubic, area,
        nearest. Default: bilinear.
    antialias: Always true, as it is by default of torchvision.
    """

    def __init__(self, size: Numbers, scale: Numbers = None, ratio: Numbers = None,
                 interpolation: str | None = None, antialias: bool = True) -> None:
        super().__init__("random_resized_crop", size=size, scale=scale, ratio=ratio, interpolation=interpolation,
                         antialias=antialias)


class Resize(Resizing):
    """The whole picture in another size.

    size: 256: length of the shorter side, the shape stays; HEIGHTxWIDTH: both sides.
    max_size: With one length: most that the longer side may have; 0: no bound. Default: 0.
    interpolation: Filter, antialiased as Pillow's; area is its BOX. One of bilinear, bicubic, area, nearest.
        Default: bilinear.
    antialias: Always true, as it is by default of torchvision.
    """

    def __init__(self, size: Numbers, interpolation: str | None = None, max_size: int | None = None,
                 antialias: bool = True) -> None:
        super().__init__("resize", size=size, max_size=max_size, interpolation=interpolation, antialias=antialias)


class CenterCrop(Transform):
    """The middle of a picture; what is smaller is padded.

    size: Pixels that stay: 224 for a square, or HEIGHTxWIDTH.
    fill: Value of the pixels added around a picture that is smaller, in all channels. Default: 0.
    """

    def __init__(self, size: Numbers, *, fill: float | None = None) -> None:
        super().__init__("center_crop", size=size, fill=fill)


class RandomCrop(Transform):
    """A part of a picture, padded first, at a random place.

    size: Pixels that stay: 32 for a square, or HEIGHTxWIDTH.
    padding: Pixels added at each side first: one number, [left and right, top and bottom], or [left, top, right,
        bottom].
    fill: Value of the pixels added, in all channels. Default: 0.
    """

    def __init__(self, size: Numbers, padding: Numbers = None, *, fill: float | None = None) -> None:
        super().__init__("random_crop", size=size, padding=padding, fill=fill)


class Pad(Transform):
    """A border of one value around a picture.

    padding: Pixels added at each side: one number, [left and right, top and bottom], or [left, top, right, bottom].
    fill: Value of the new pixels, in all channels. Default: 0.
    """

    def __init__(self, padding: Numbers, fill: float | None = None) -> None:
        super().__init__("pad", padding=padding, fill=fill)


class RandomHorizontalFlip(Transform):
    """Left and right change places, for a share of the samples.

    p: Share of the samples that are mirrored. Default: 0.5.
    """

    def __init__(self, p: float | None = None) -> None:
        super().__init__("horizontal_flip", p=p)


class RandomVerticalFlip(Transform):
    """Top and bottom change places, for a share of the samples.

    p: Share of the samples that are mirrored. Default: 0.5.
    """

    def __init__(self, p: float | None = None) -> None:
        super().__init__("vertical_flip", p=p)


class RandomRotation(Transform):
    """A picture turned about its centre by a random angle.

    degrees: How far to turn: 15 draws an angle of -15 to 15 degrees, [0, 90] one of 0 to 90; positive is counter-
        clockwise.
    fill: Value of the corners that come from outside: one number 0 to 255, or one for each channel. Default: 0.
    interpolation: Where a value lies between pixels: the nearest of them, fast and jagged, or a mean of four. Masks
        always take the nearest. One of nearest, bilinear. Default: nearest.
    mask_fill: Class of the corners in masks; 255 where the loss ignores that class. Default: 0.
    """

    def __init__(self, degrees: Numbers, interpolation: str | None = None, *, fill: Numbers = None,
                 mask_fill: int | None = None) -> None:
        super().__init__("random_rotation", degrees=degrees, fill=fill, interpolation=interpolation,
                         mask_fill=mask_fill)


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue, each changed by a random factor.

    brightness: How far values are multiplied: 0.4 draws a factor of 0.6 to 1.4, [0.5, 1.2] one of 0.5 to 1.2; 1 is
        the picture itself, 0 black. Default: 0.
    contrast: In the same way, how far values are moved away from the mean grey of the picture; 0 is that grey
        alone. Default: 0.
    saturation: In the same way, how far each pixel is moved away from its own grey; 0 is a grey picture. Default:
        0.
    hue: How far colours turn round the circle: 0.1 draws -0.1 to 0.1 of a full turn; at most 0.5. By far the
        dearest of the four. Default: 0.
    """

    def __init__(self, brightness: Numbers = None, contrast: Numbers = None, saturation: Numbers = None,
                 hue: Numbers = None) -> None:
        super().__init__("color_jitter", brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)


class RandomGrayscale(Transform):
    """A share of the pictures becomes grey, in as many channels.

    p: Share of the samples that become grey; they keep their number of channels. Default: 0.1.
    """

    def __init__(self, p: float | None = None) -> None:
        super().__init__("random_grayscale", p=p)


class GaussianBlur(Transform):
    """A Gaussian blur of random width.

    kernel_size: Pixels that are mixed into one: an odd number up to 63, or [width, height]. About 6 sigma + 1 is
        the whole Gaussian, a tenth of the picture is usual.
    sigma: Standard deviation of the Gaussian in pixels: one number, or [low, high] to draw it between them. Below
        0.2 nothing is blurred. Default: [0.1, 2.0].
    p: Share of the samples that are blurred. Default: 1.
    """

    def __init__(self, kernel_size: Numbers, sigma: Numbers = None, *, p: float | None = None) -> None:
        super().__init__("gaussian_blur", kernel_size=kernel_size, sigma=sigma, p=p)


class RandAugment(Transform):
    """A few operations drawn from a list, all at one magnitude.

    num_ops: Operations for each picture, drawn from: identity, shear and translation both ways, rotation,
        brightness, color, contrast, sharpness, posterize, solarize, autocontrast, equalize. Default: 2.
    magnitude: How strong they are, from 0 to num_magnitude_bins - 1: at 9 of 31 a rotation turns by 9 degrees, at
        30 by 30. Default: 9.
    num_magnitude_bins: Number of magnitudes. Default: 31.
    fill: Value of pixels that come from outside: one number 0 to 255, or one for each channel. Default: 0.
    mask_fill: Class of such pixels in masks; 255 where the loss ignores that class. Default: 0.
    """

    def __init__(self, num_ops: int | None = None, magnitude: int | None = None,
                 num_magnitude_bins: int | None = None, *, fill: Numbers = None, mask_fill: int | None = None) -> None:
        super().__init__("rand_augment", num_ops=num_ops, magnitude=magnitude, num_magnitude_bins=num_magnitude_bins,
                         fill=fill, mask_fill=mask_fill)


class RandomErasing(Transform):
    """A random box of the picture becomes one value or noise, for a share of the samples.

    p: Share of the samples that lose a box. Default: 0.5.
    scale: Area of the box as a share of the picture, drawn between the two. Default: [0.02, 0.33].
    ratio: Height of the box over its width, drawn between the two, uniform in the logarithm. Default: [0.3, 3.3].
    value: What the box becomes: one number, a list with one for each channel, or random: noise, uniform for uint8,
        normal with deviation 1 for float32. Default: 0.
    """

    def __init__(self, p: float | None = None, scale: Numbers = None, ratio: Numbers = None,
                 value: Numbers = None) -> None:
        super().__init__("random_erasing", p=p, scale=scale, ratio=ratio, value=value)


class Normalize(Transform):
    """Float32 with mean 0 and deviation 1, from uint8 or float32.

    mean: Mean of the values over 255 (of float fields: of the values): one number, a list with one for each
        channel, or the name of a preset.
    std: Standard deviation, in the same way.
    preset: Mean and deviation of a well-known dataset, in place of the two. One of none, mnist, cifar10, imagenet.
        Default: none.
    """

    def __init__(self, mean: Numbers = None, std: Numbers = None, *, preset: str | None = None) -> None:
        super().__init__("normalize", mean=mean, std=std, preset=preset)


class Layout(Transform):
    """Channels first (chw) or last (hwc).

    order: hwc: channels last; chw: channels first. One of hwc, chw. Default: chw.
    """

    def __init__(self, order: str | None = None) -> None:
        super().__init__("layout", order=order)
