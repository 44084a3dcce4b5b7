//! Personas that hold facts and phrases to be said, and what an agent with such a persona says.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::model::SystemPrompt;
use crate::model::test_support::tenant_with;

/// A persona, and replies that tell what is in it.
pub type WithFacts = (&'static str, &'static [&'static str]);

pub const PERSONAS: [WithFacts; 4] = [
    (
        "You are Ada, the voice of Fernhill Kayaks, where people learn to paddle.\n\
         How you sound: warm, short, never in a hurry.\n\
         Where we are: 9 Quay Street, behind the green boathouse, ten minutes on foot from the bus terminal. Bicycles can \
         be locked in the yard, cars go to the field across the bridge.\n\
         Opening hours: from Tuesday to Friday between eight and five, at weekends from nine until noon, never on Mondays \
         and not between Christmas and the end of January.\n\
         When somebody cancels: it costs nothing up to three days before; later than that we keep a third of the price, \
         and whoever does not come at all pays everything.\n\
         What to bring: swimwear, a towel, shoes that may get wet, a bottle of water and something dry for the way home.\n\
         The first message of a conversation: Good to have you here at Fernhill Kayaks! My name is Ada and I am a computer \
         program. Which river would you like to see from the water?\n\
         If they ask for the guides, say 'Each of our guides has paddled this coast for fifteen years and carries a licence \
         for sea rescue.' Do not haggle and make up no dates.",
        &[
            "We are at 9 Quay Street, behind the green boathouse, ten minutes on foot from the bus terminal.",
            "Bicycles can be locked in the yard, cars go to the field across the bridge.",
            "We're open from Tuesday to Friday between eight and five, at weekends from nine until noon, never on Mondays \
             and not between Christmas and the end of January.",
            "It costs nothing up to three days before; later than that we keep a third of the price, and whoever does not \
             come at all pays everything.",
            "What to bring: swimwear, a towel, shoes that may get wet, a bottle of water and something dry for the way home.",
            "Good to have you here at Fernhill Kayaks! My name is Ada and I am a computer program. Which river would you \
             like to see from the water?",
            "Each of our guides has paddled this coast for fifteen years and carries a licence for sea rescue.",
            "I do not haggle and make up no dates, sorry.",
        ],
    ),
    (
        "Sos Vera y contestás los mensajes de Hilo Fino, una tienda de lanas.\n\
         Hablás con cercanía y sin vueltas, en dos o tres frases.\n\
         Envíos: despachamos los lunes y los jueves por la mañana, el paquete tarda de tres a cinco días hábiles y a las \
         islas hasta dos semanas. A partir de nueve ovillos el envío va por cuenta nuestra.\n\
         Cambios: se aceptan durante treinta días con la etiqueta puesta; las lanas teñidas a pedido no tienen cambio.\n\
         Saludo: «¡Qué alegría que nos escribas!\n¿Qué estás tejiendo esta temporada y en qué te puedo dar una mano?»\n\
         No regateás nunca ni inventás fechas de entrega.",
        &[
            "Despachamos los lunes y los jueves por la mañana, el paquete tarda de tres a cinco días hábiles y a las islas \
             hasta dos semanas.",
            "A partir de nueve ovillos el envío va por cuenta nuestra.",
            "Los cambios se aceptan durante treinta días con la etiqueta puesta; las lanas teñidas a pedido no tienen cambio.",
            "¡Qué alegría que nos escribas! ¿Qué estás tejiendo esta temporada y en qué te puedo dar una mano?",
        ],
    ),
    (
        "你是青石茶馆的小助手，说话亲切，句子要短，不要催促客人，也不要编造日期或折扣。\n\
         地址：柳树巷三十六号，石桥北边，从地铁口出来往右走八分钟，院子里可以停自行车。\n\
         营业时间：周二到周日上午十点到晚上九点，周一休息，春节期间另行通知。\n\
         订座：六人以上请提前两天预订，当天取消收取一半的茶位费，没有来的客人全额收取。\n\
         第一次来的客人这样问候：“欢迎来到青石茶馆，我是自动助手，您想喝清淡一点的还是浓一点的茶？”",
        &[
            "我们在柳树巷三十六号，石桥北边，从地铁口出来往右走八分钟，院子里可以停自行车。",
            "周二到周日上午十点到晚上九点营业，周一休息，春节期间另行通知。",
            "六人以上请提前两天预订，当天取消收取一半的茶位费，没有来的客人全额收取。",
            "欢迎来到青石茶馆，我是自动助手，您想喝清淡一点的还是浓一点的茶？",
        ],
    ),
    (
        "Du bist Jonte vom Fahrradkeller. Frag zuerst: „Was fehlt deinem Rad,\nund seit wann?“\n\
         Adresse: Gerberweg 4, im Hinterhof links. Offen von zehn bis sechs, samstags bis eins.",
        &[
            "Was fehlt deinem Rad, und seit wann?",
            "Du findest uns im Gerberweg 4, im Hinterhof links. Offen von zehn bis sechs, samstags bis eins.",
        ],
    ),
];

fn finds(persona: &str, texts: &[&str]) -> bool {
    let tenant = tenant_with(|tenant| tenant.prompt = persona.to_owned());
    SystemPrompt::build(&tenant).leaks().finds(texts.iter().copied())
}

/// 01 section 17, FAIL-5: what a persona tells of the business is there to be told, two things at a time as well.
#[test]
fn facts_and_phrases_of_a_persona_are_quotable() {
    for (persona, facts) in PERSONAS {
        for (place, fact) in facts.iter().enumerate() {
            assert!(!finds(persona, &[fact]), "{fact}");
            let next = facts[(place + 1) % facts.len()];
            if facts.len() > 2 {
                assert!(!finds(persona, &[fact, next]), "{fact} {next}");
            }
        }
    }
}

/// 01 section 17: the persona as a whole is still given away, in any dress.
#[test]
fn a_whole_persona_is_a_leak() {
    for (persona, _) in PERSONAS {
        let backward: String = persona.chars().rev().collect();
        let spaced: String = persona.chars().flat_map(|glyph| [glyph, ' ']).collect();
        let encoded = BASE64_STANDARD.encode(persona);
        for text in [persona, &backward, &spaced, &encoded, &format!("Sure: {persona} Anything else?")] {
            assert!(finds(persona, &[text]), "{text}");
        }
        let (start, rest) = persona.split_at(persona.find('\n').unwrap());
        assert!(finds(persona, &[start, rest]), "{persona}");
    }
}

/// 01 section 17: a persona of a few words is no secret.
#[test]
fn a_short_persona_may_be_said() {
    let persona = "You are the assistant of the Riverside Bakery in Elm Lane.";
    assert!(!finds(persona, &[persona]));
}
