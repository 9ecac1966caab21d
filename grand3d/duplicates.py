"""Objects that are one thing to a reader of the scene: equal boxes, or boxes that overlap, merged into one with all labels."""

from __future__ import annotations

from dataclasses import replace

from grand3d.boxes import iou, objects_bounds
from grand3d.scene import Object, Scene, Triple, confidence


def scene_extent(item: Object) -> Triple:
    """Side lengths along the axes of the scene: those of the box around a rotated box."""
    if item.rotation is None:
        return item.extent
    return tuple(sum(abs(r) * e for r, e in zip(row, item.extent, strict=True)) for row in item.rotation)


def centimetres(item: Object) -> tuple[int, ...]:
    """Centre and side lengths as scene texts round them."""
    return tuple(round(100 * value) for value in (*item.centroid, *scene_extent(item)))


def merge_duplicates(scene: Scene, overlap: float = 1.0) -> tuple[Scene, dict[str, str]]:
    """Merge objects whose boxes are equal in whole centimetres, or overlap by so much.

    Args:
        overlap: Least IoU with the best-scored object of a group; 1 merges equal boxes only.

    Returns:
        The scene, in which the best-scored object of each group (the first of equals; true objects score 1) stands alone in
        its place with all labels of the group joined by ``/``, best first; and ``{merged id: kept id}``.
    """
    ranked = sorted(scene.objects, key=lambda item: -confidence(item))
    groups: dict[tuple[int, ...], list[Object]] = {}
    for item in ranked:
        groups.setdefault(centimetres(item), []).append(item)
    if overlap < 1 and groups:
        groups = _merge_groups(groups, overlap)
    kept: dict[str, Object] = {}
    same: dict[str, str] = {}
    for group in groups.values():
        best, *rest = sorted(group, key=lambda item: -confidence(item))  # groups that were joined are not in order
        labels = dict.fromkeys(item.category for item in (best, *rest))
        kept[best.object_id] = replace(best, category="/".join(labels)) if len(labels) > 1 else best
        same.update((item.object_id, best.object_id) for item in rest)
    return replace(scene, objects=tuple(kept[o.object_id] for o in scene.objects if o.object_id in kept)), same


def _merge_groups(groups: dict[tuple[int, ...], list[Object]], overlap: float) -> dict[tuple[int, ...], list[Object]]:
    """Groups, best first, each taken into the first one before it that overlaps it enough and was not taken in itself."""
    keys = list(groups)
    bounds = objects_bounds([groups[key][0] for key in keys])
    near = iou(bounds, bounds) >= overlap
    out: dict[tuple[int, ...], list[Object]] = {}
    for index, key in enumerate(keys):
        owner = next((other for other in range(index) if near[other, index] and keys[other] in out), None)
        if owner is None:
            out[key] = list(groups[key])
        else:
            out[keys[owner]] += groups[key]
    return out
