// SPDX-License-Identifier: Apache-2.0
/* Text of many scripts, in normal form C, one kind a line: what tokenizers are known to stumble over. */
#include "base/attr.h"

#include "model/tok_check.h"

static const struct {
    const char *name;
    const char *text;
} lines[] = {
    {"English", "The quick brown fox can't jump over 13 lazy dogs, it's said."},
    {"German", "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich."},
    {"French", "Dès Noël, où un zéphyr haï me vêt de glaçons würmiens, je dîne."},
    {"Vietnamese", "Tiếng Việt có nhiều dấu thanh điệu."},
    {"Polish", "Zażółć gęślą jaźń."},
    {"Greek", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία."},
    {"Russian", "Съешь же ещё этих мягких французских булок."},
    {"Chinese", "我能吞下玻璃而不伤身体，2023年。"},
    {"Japanese", "いろはにほへとちりぬるを、カタカナも。"},
    {"Korean", "키스의 고유조건은 입술끼리 만나야 한다."},
    {"Arabic", "نص حكيم له سر قاطع وذو شأن عظيم."},
    {"Hebrew", "דג סקרן שט בים מאוכזב."},
    {"Hindi", "ऋषियों को सताने वाले दुष्ट राक्षसों का अंत।"},
    {"Thai", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า"},
    {"Tamil", "யாமறிந்த மொழிகளிலே தமிழ்மொழி."},
    {"Georgian", "ვეპხის ტყაოსანი შოთა რუსთაველი."},
    {"emoji", "🙂👩‍👩‍👧‍👦🇩🇪👍🏽 ok"},
    {"mathematics", "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β ≠ ∅"},
    {"code", "for (int i = 0; i < n; i++) { a[i] += \"x\\n\"; }"},
    {"indentation", "def f(x):\n    if x:\n        return 1\n\n\treturn 2\n"},
    {"numbers", "3.14159 1,000,000 0xFF 1e-5 007 20231124"},
    {"spaces", "two  three   four\u00a0no-break"},
    {"combining marks", "q\u0323\u0307 m\u0303 z\u0335"},
    {"quotes", "“smart” ‘quotes’ — dash… «guillemets»"},
    {"URL", "https://example.org/a_b?c=d&e=%20#f"},
};

const char *tok_sample(size_t index, const char **ret_name)
{
    if (index >= ARRAY_LEN(lines)) {
        return NULL;
    }
    *ret_name = lines[index].name;
    return lines[index].text;
}
