"""Images are looked at, and not written."""


def save_image(x, *args, **options):
    assert x.detach().numpy() is not None


make_grid = save_image
