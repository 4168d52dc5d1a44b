"""visible_text.py REPORT.html [UNTIL_ID]: prints the visible text of the page, up to the section with that id."""
import html.parser
import sys


class Text(html.parser.HTMLParser):
    hidden = 0
    ended = False

    def handle_starttag(self, tag, attributes):
        self.ended |= len(sys.argv) > 2 and dict(attributes).get("id") == sys.argv[2]
        self.hidden += tag in ("script", "style", "title")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style", "title")

    def handle_data(self, data):
        if not self.hidden and not self.ended and data.strip():
            print(data.strip())


Text().feed(open(sys.argv[1], encoding="utf-8").read())
