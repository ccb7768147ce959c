"""Words by number."""


class Vocabulary(dict):
    def __call__(self, words):
        return [self.get(word, 0) for word in words]

    def set_default_index(self, index):
        pass


def build_vocab_from_iterator(sentences, min_freq=1, specials=(), special_first=True):
    found = Vocabulary({word: i for i, word in enumerate(specials)})
    for words in sentences:
        for word in words:
            found.setdefault(word, len(found))
    return found
