"""Train a small Keras model on reviews, with its vocabulary in the SavedModel.

    python make.py        (needs tensorflow)

Clients send texts: `TextVectorization` is a layer of the model, and is exported with it.
"""

import keras
import numpy as np
import tensorflow as tf

GOOD = ["wonderful", "great", "lovely", "brilliant", "funny"]
BAD = ["boring", "awful", "dull", "terrible", "silly"]
THINGS = ["film", "book", "play", "song", "story"]
WORDS_AT_MOST = 8
EPOCHS = 60


def reviews() -> tuple[tf.Tensor, np.ndarray]:
    """Make sentences of all words, each with 1 for praise or 0."""
    rows = [
        (text.format(thing=thing, word=word), float(word in GOOD))
        for thing in THINGS
        for word in GOOD + BAD
        for text in ("a {word} {thing}", "the {thing} was {word}", "what a {word}, {word} {thing}!")
    ]
    texts, praise = zip(*rows, strict=True)
    return tf.constant(texts), np.array(praise, np.float32)[:, None]


def main() -> None:
    keras.utils.set_random_seed(1)
    texts, praise = reviews()
    words = keras.layers.TextVectorization(output_sequence_length=WORDS_AT_MOST)
    words.adapt(texts)
    text = keras.Input((), dtype="string", name="text")
    numbers = words(text)
    embedded = keras.layers.Embedding(words.vocabulary_size(), 8, mask_zero=True)(numbers)
    mean = keras.layers.GlobalAveragePooling1D()(embedded)
    model = keras.Model(text, keras.layers.Dense(1, "sigmoid", name="praise")(mean))
    model.compile("adam", "binary_crossentropy")
    model.optimizer.learning_rate = 0.05
    model.fit(texts, praise, epochs=EPOCHS, batch_size=len(texts), verbose=0)
    model.export("models/reviews/1", verbose=False)


if __name__ == "__main__":
    main()
